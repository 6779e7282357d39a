"""timm models from every module of the library: one or more of each family, small members, default image sizes."""

from __future__ import annotations

from functools import partial

import timm
from torch import nn

from .case import Case, image

NAMES = """
beit_base_patch16_224 beitv2_base_patch16_224
halonet_h1 eca_botnext26ts_256 eca_halonext26ts lambda_resnet26t lambda_resnet26rpt_256 botnet26t_256 lamhalobotnet50ts_256
mobileone_s0 mobileone_s1 gernet_s repvgg_a0 regnetz_b16 gcresnext26ts bat_resnext26ts regnetz_c16
cait_xxs24_224 cait_s24_224
coat_tiny coat_lite_tiny
convit_tiny convit_small
convmixer_768_32 convmixer_1024_20_ks9_p14
convnext_atto convnextv2_atto convnext_zepto_rms convnext_femto_ols convnext_tiny
cpubone_nano cpubone_b1_dwnorm
crossvit_tiny_240 crossvit_9_dagger_240
csatv2
cs3darknet_focus_s darknet17 cspresnext50 cspresnet50 sedarknet21
cspnext_tiny cspnext_s
davit_tiny
deepseek_vit_412m
deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 deit3_small_patch16_224
densenet121 densenetblur121d
dla46x_c dla34 dla60_res2net
dpn48b dpn68
edgenext_xx_small edgenext_small_rw
efficientformer_l1
efficientformerv2_s0
efficientnet_lite0 efficientnet_b0 efficientnet_b0_gn efficientnet_blur_b0 efficientnet_es efficientnetv2_rw_t mnasnet_small mobilenetv2_100
efficientvim_m1
efficientvit_b0 efficientvit_l1
efficientvit_m0 efficientvit_m5
eva02_tiny_patch14_224 vit_medium_patch16_rope_reg1_gap_256 vit_pe_core_tiny_patch16_384
fasternet_t0
fastvit_t8 fastvit_sa12 fastvit_mci0
focalnet_tiny_srf focalnet_tiny_lrf
gcvit_xxtiny
gemma4_vit_167m
ghostnet_050 ghostnetv2_100 ghostnetv3_050
hardcorenas_a
hgnetv2_b0 hgnet_tiny
hiera_tiny_224 hiera_small_abswin_256
hieradet_small sam2_hiera_tiny
hrnet_w18_small hrnet_w18
iformer_t
inception_next_atto inception_next_tiny
inception_resnet_v2
inception_v3
inception_v4
lcnetv2_small
levit_128s levit_conv_128s
lowformer_b0 lowformer_e1
mambaout_femto mambaout_kobe
maxvit_pico_rw_256 maxvit_rmlp_pico_rw_256 coatnet_pico_rw_224 coatnext_nano_rw_224 maxxvit_rmlp_nano_rw_256 maxvit_tiny_tf_224
poolformer_s12 poolformerv2_s12 caformer_s18 convformer_s18
gmlp_ti16_224 gmixer_12_224 resmlp_12_224 mixer_s16_224
mobilenetv3_small_050 lcnet_050 mobilenetv4_conv_small fbnetc_100 mobilenetv4_hybrid_medium
mobilenetv5_base
mobilevit_xxs mobilevitv2_050
mvitv2_tiny mvitv2_small_cls
naflexvit_base_patch16_gap
nasnetalarge
nest_tiny
nextvit_small
nf_regnet_b0 nf_resnet26 eca_nfnet_l0 dm_nfnet_f0
pit_ti_224 pit_ti_distilled_224
pnasnet5large
pvt_v2_b0 pvt_v2_b2_li
qwen3_vit_88m
rdnet_tiny
regnetx_002 regnety_002 regnetz_005
repghostnet_050
repvit_m1 repvit_m0_9
res2net50_26w_4s res2next50
resnest14d resnest26d
resnet10t resnet18d ecaresnet26t resnet26t resnet50 seresnet50 resnetaa50d resnetblur50 resnext50_32x4d resnetrs50
resnetv2_18 resnetv2_50x1_bit resnetv2_50d_gn resnetv2_50d_evos resnetv2_50d_frn
rexnet_100 rexnetr_100
selecsls42b
legacy_seresnet18 legacy_seresnext26_32x4d
sequencer2d_s
shvit_s1
skresnet18 skresnext50_32x4d
starnet_s050 starnet_s1
swiftformer_xs
swin_tiny_patch4_window7_224 swin_s3_tiny_224
swinv2_tiny_window8_256
swinv2_cr_tiny_224
tiny_vit_5m_224
tnt_s_patch16_224
tresnet_m
twins_svt_small twins_pcpvt_small
vgg11_bn
visformer_tiny
flexivit_small vit_tiny_patch16_224 vit_base_patch16_clip_224 vit_base_patch14_dinov2 vit_small_patch16_18x2_224 vit_base_patch16_siglip_224
vit_base_patch16_rpn_224 vit_base_patch16_gap_224
vit_tiny_r_s16_p8_224 vit_small_resnet26d_224
vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224
samvit_base_patch16_224
vitamin_small_224
volo_d1_224
ese_vovnet19b_slim_dw vovnet39a eca_vovnet39b
legacy_xception
xception41 xception41p
xcit_nano_12_p8_224 xcit_nano_12_p16_224
""".split()

SMALL = {
    "convnext_atto", "convnext_zepto_rms", "edgenext_xx_small", "efficientvit_b0", "efficientvit_m0", "ghostnet_050", "lcnet_050",
    "mobilenetv3_small_050", "mobilevitv2_050", "regnetx_002", "repghostnet_050", "starnet_s050", "vit_tiny_patch16_224",
    "deit_tiny_patch16_224", "pvt_v2_b0", "levit_128s",
}  # fmt: skip


def make(name: str) -> nn.Module:
    model: nn.Module = timm.create_model(name, pretrained=False)
    return model


def size(name: str) -> tuple[int, int]:
    entry = timm.get_pretrained_cfg(name, allow_unregistered=False)
    return tuple(((entry.fixed_input_size and entry.input_size) or entry.input_size)[1:]) if entry else (224, 224)


def cases() -> list[Case]:
    return [
        Case(f"timm:{name}", f"timm {timm.models.model_entrypoint(name).__module__.rpartition('.')[2]}", partial(make, name),
             image(*size(name)), small=name in SMALL)
        for name in NAMES
        if timm.is_model(name)  # an older timm has fewer
    ]  # fmt: skip
