"""Models named by their origin."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rasp.cli import words
from rasp.errors import InputError, ModelError, UnknownName
from rasp.profile import Profile
from rasp.zoo.adapters import source


def profiled(name: str) -> Profile:
    import rasp

    found = source(name)
    assert found.given is not None
    return rasp.profile(found.model(virtual=found.virtual), **found.given(1))


def test_torchvision() -> None:
    pytest.importorskip("torchvision")
    assert profiled("torchvision:resnet18").total("params") == 11_689_512
    given = source("torchvision:inception_v3").given
    assert given is not None
    assert given(2) == {"input_shape": (2, 3, 299, 299)}
    with pytest.raises(UnknownName, match="Did you mean 'resnet18'"):
        source("torchvision:resnet81")


def test_torchvision_builds_segmentation_without_a_download() -> None:
    pytest.importorskip("torchvision")
    assert profiled("torchvision:lraspp_mobilenet_v3_large").total("macs") > 10**9


def test_timm() -> None:
    pytest.importorskip("timm")
    assert profiled("timm:resnet18").total("params") == 11_689_512
    with pytest.raises(UnknownName, match="Did you mean"):
        source("timm:resnet81")


def test_hugging_face_config(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    config.to_json_file(tmp_path / "config.json", use_diff=False)
    found = profiled(f"hf:{tmp_path / 'config.json'}")
    assert found.info["model"] == "BertModel"
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(tmp_path / "folder")
    assert profiled(f"hf:{tmp_path / 'folder'}").info["model"] == "BertForMaskedLM"
    with pytest.raises(InputError, match="nothing is downloaded"):
        source("hf:org/name")


def test_known_models_take_no_memory() -> None:
    assert next(source("mobilenet_v2").model(virtual=True).parameters()).is_meta


def test_a_factory_that_raises_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(): 1 / 0\ndef g(): return 3")
    with pytest.raises(ModelError, match="ZeroDivisionError") as caught:
        source(f"{tmp_path}/f.py:f").model(virtual=False)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(InputError, match="gave a int"):
        source(f"{tmp_path}/f.py:g").model(virtual=False)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["1,3,224,224"], {"input_shape": (1, 3, 224, 224), "dtypes": None}),
        (["1,8", "2,8"], {"input_shape": [(1, 8), (2, 8)], "dtypes": None}),
        (["ids:int64=1,128"], {"input_shape": {"ids": (1, 128)}, "dtypes": {"ids": "int64"}}),
        (["x=1,8", "y:int32=3"], {"input_shape": {"x": (1, 8), "y": (3,)}, "dtypes": {"y": "int32"}}),
        ([":int64=1,4"], {"input_shape": (1, 4), "dtypes": ["int64"]}),
    ],
)
def test_words_for_inputs(given: list[str], made: dict[str, object]) -> None:
    assert words.inputs(given) == made


def test_words_for_factory_arguments() -> None:
    found = words.keywords(["depth=4", "rate=0.5", "name=relu", "flag=true", "sizes=(1,2)", "empty="])
    assert found == {"depth": 4, "rate": 0.5, "name": "relu", "flag": True, "sizes": (1, 2), "empty": ""}


def test_detectors_take_lists_of_images() -> None:
    pytest.importorskip("torchvision")
    found = source("torchvision:ssdlite320_mobilenet_v3_large")
    taken = found.taking({"input_shape": (1, 3, 320, 320)})
    assert [tuple(image.shape) for image in taken["inputs"]] == [(3, 320, 320)]
    assert all(isinstance(image, torch.Tensor) for image in taken["inputs"])
