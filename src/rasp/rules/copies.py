"""Copies, fills and new tensors: bytes and no arithmetic. What is overwritten is not read; what is not touched not
counted.
"""

from __future__ import annotations

from ..records import OpSpec
from . import Work, bytes_read, bytes_written, rule

# Reads every input, writes every output.
COPIES = (
    "clone", "contiguous", "_to_copy", "to", "cpu", "cuda", "type_as", "chalf", "_to_cpu", "_pin_memory", "pin_memory",
    "lift_fresh_copy", "_lazy_clone", "reshape", "reshape_as", "flatten", "ravel", "cat", "concat", "concatenate",
    "stack", "_stack", "hstack", "vstack", "dstack", "column_stack", "row_stack", "_chunk_cat", "constant_pad_nd",
    "pad", "_pad_enum", "_pad_circular", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "repeat", "tile", "repeat_interleave", "roll",
    "flip", "fliplr", "flipud", "rot90", "tril", "tril_", "triu", "triu_", "block_diag", "diag", "diag_embed",
    "diagflat", "cartesian_prod", "combinations", "narrow_copy", "split_with_sizes_copy", "split_copy", "unbind_copy",
    "view_copy", "_reshape_copy", "_reshape_alias_copy", "expand_copy", "permute_copy", "transpose_copy", "t_copy",
    "squeeze_copy", "unsqueeze_copy", "select_copy", "slice_copy", "alias_copy", "detach_copy", "diagonal_copy",
    "unfold_copy", "as_strided_copy", "view_as_real_copy", "view_as_complex_copy", "_conj_copy", "_neg_view_copy",
    "_fw_primal_copy", "_make_dual_copy", "_indices_copy", "_values_copy", "indices_copy", "values_copy",
    "crow_indices_copy", "col_indices_copy", "ccol_indices_copy", "row_indices_copy", "_nested_view_from_buffer_copy",
    "_nested_view_from_jagged_copy", "_nested_get_values_copy", "_sparse_broadcast_to_copy",
    "_test_autograd_multiple_dispatch_view_copy", "to_mkldnn", "to_mkldnn_backward", "_mkldnn_reshape", "_copy_from",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle", "_cast_Byte", "_cast_Char",
    "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int", "_cast_Long", "_cast_Short", "_pack_padded_sequence",
    "_pack_padded_sequence_backward", "_pad_packed_sequence", "pad_sequence", "_pack_sequence", "complex",
    "mkldnn_reorder_conv2d_weight", "mkldnn_reorder_conv3d_weight", "_cudnn_rnn_flatten_weight", "_nested_from_padded",
    "_nested_from_padded_and_nested_example", "_nested_from_padded_tensor", "_nested_tensor_from_mask",
    "_nested_tensor_from_tensor_list", "nested_to_padded_tensor", "to_padded_tensor", "_jagged_to_padded_dense_forward",
    "_padded_dense_to_jagged_forward", "_nested_select_backward", "scalar_tensor", "_saturate_weight_to_fp16",
    "_rowwise_prune", "as_tensor", "_copy_from_and_resize", "_list_to_tensor", "tensor", "_convert_weight_to_int4pack",
    "_convert_weight_to_int4pack_for_cpu", "_dyn_quant_pack_4bit_weight",
)  # fmt: skip


@rule(*(f"aten::{name}" for name in COPIES))
def copy(call: OpSpec) -> Work:
    return Work()


@rule(
    "mkl::_mkl_reorder_linear_weight", "mkldnn::_reorder_linear_weight", "mkldnn::_reorder_convolution_weight",
    "mkldnn::_reorder_convolution_transpose_weight", "mkldnn::_reorder_mkldnn_rnn_layer_weight", "prims::clone",
    "prims::cat", "prims::convert_element_type", "prims::device_put", "prims::reshape", "prims::rev", "prims::collapse",
    "prims::copy_strided", "static_runtime::to_copy", "static_runtime::reshape_copy", "static_runtime::flatten_copy",
    "static_runtime::permute_copy", "_test::cat",
)  # fmt: skip
def foreign_copy(call: OpSpec) -> Work:
    return Work()


@rule("aten::copy_", "aten::copy", "prims::copy_to")
def copy_into(call: OpSpec) -> Work:
    """Reads the source, overwrites the target."""
    return Work(read=bytes_read(call, skip=(0,)))


@rule("aten::where", "aten::masked_fill", "aten::masked_fill_", "prims::where")
def select(call: OpSpec) -> Work:
    """Selects, computes nothing."""
    return Work()


NEW = (
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "arange",
    "range", "linspace", "logspace", "eye", "tril_indices", "triu_indices", "fill", "fill_", "zero", "zero_",
    "_no_grad_fill_", "_no_grad_zero_", "_efficientzerotensor", "_new_zeros_with_same_feature_meta", "bartlett_window",
    "blackman_window", "hamming_window", "hann_window", "kaiser_window", "fill_diagonal_", "fft_fftfreq",
    "fft_rfftfreq", "_dim_arange",

)  # fmt: skip


@rule(
    *(f"aten::{name}" for name in NEW),
    "prims::fill",
    "prims::iota",
    "prims::full",
    "prims::full_like",
    "prims::scalar_tensor",
)
def new(call: OpSpec) -> Work:
    """Written, not read: of the tensors given only the shape matters."""
    return Work(read=0)


EMPTY = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "empty_quantized",
    "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
)  # fmt: skip


@rule(*(f"aten::{name}" for name in EMPTY), "prims::empty", "prims::empty_strided", "prims::empty_permuted")
def empty(call: OpSpec) -> Work:
    """Allocated and nothing more."""
    return Work(read=0, write=0)


@rule("aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter", "aten::as_strided_scatter")
def scatter_copy(call: OpSpec) -> Work:
    """A copy in which one part comes from elsewhere: as many bytes read as written."""
    return Work(read=bytes_written(call))


@rule("aten::select_backward", "aten::slice_backward", "aten::diagonal_backward", "aten::trace_backward")
def view_backward(call: OpSpec) -> Work:
    """Zeros with the gradient in its place."""
    return Work()


@rule("aten::masked_scatter_backward", "aten::value_selecting_reduction_backward", "aten::masked_select_backward")
def selection_backward(call: OpSpec) -> Work:
    return Work()


@rule(*(f"aten::{kind}_pad{d}d_backward" for kind in ("reflection", "replication") for d in (1, 2, 3)))
def pad_backward(call: OpSpec) -> Work:
    """Every gradient is added to the element it was copied from."""
    return Work(add=call.args[0].numel)


@rule("prims::as_strided_scatter", "prims::resize")
def prims_scatter(call: OpSpec) -> Work:
    return Work()
