"""Operators that neither compute nor move anything: views, questions about a tensor, bookkeeping."""

from __future__ import annotations

from . import free

# Views: a new shape over the same memory.
free(*(
    f"aten::{name}"
    for name in (
        "view", "_unsafe_view", "_reshape_alias", "view_as", "t", "t_", "transpose", "transpose_", "permute", "expand",
        "expand_as", "broadcast_to", "squeeze", "squeeze_", "unsqueeze", "unsqueeze_", "select", "slice", "narrow",
        "split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "chunk", "tensor_split",
        "hsplit", "vsplit", "dsplit", "unbind", "unfold", "diagonal", "linalg_diagonal", "as_strided", "as_strided_",
        "alias", "detach", "detach_", "lift_fresh", "lift", "view_as_real", "view_as_complex", "real", "imag", "_conj",
        "conj", "resolve_conj", "resolve_neg", "_neg_view", "adjoint", "mT", "mH", "numpy_T", "matrix_H", "movedim",
        "moveaxis", "swapaxes", "swapaxes_", "swapdims", "swapdims_", "unflatten", "flatten_dense_tensors",
        "unflatten_dense_tensors", "positive", "data", "requires_grad_", "atleast_1d", "atleast_2d", "atleast_3d",
        "broadcast_tensors", "meshgrid", "slice_inverse", "_fw_primal", "_make_dual", "_unpack_dual",
        "_mkldnn_transpose", "_mkldnn_transpose_", "_ncf_view", "_ncf_unsqueeze", "_add_batch_dim", "_remove_batch_dim",
        "_indices", "_values", "indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices",
        "_coalesced", "_coalesced_", "_sparse_broadcast_to", "_nested_view_from_buffer", "_nested_view_from_jagged",
        "_nested_get_values", "_nested_get_offsets", "_nested_get_lengths", "_nested_get_min_seqlen",
        "_nested_get_max_seqlen", "_nested_get_ragged_idx", "_nested_get_jagged_dummy",
        "_test_autograd_multiple_dispatch_view", "_grad_sum_to_size", "set_", "set", "set_data", "resize_",
        "resize_as_", "resize", "resize_as", "_resize_output_", "_resize_output", "shallow_copy_data_",
        "_reshape_from_tensor",
        "rename", "rename_", "refine_names", "align_to", "align_as", "align_tensors",
    )
))  # fmt: skip
# Questions about a tensor, answered from its description.
free(*(
    f"aten::{name}"
    for name in (
        "size", "stride", "numel", "dim", "len", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset",
        "storage_offset", "sym_is_contiguous", "is_contiguous", "is_floating_point", "is_complex", "is_signed",
        "is_conj", "is_neg", "is_inference", "is_leaf", "is_pinned", "is_same_size", "is_set_to", "is_coalesced",
        "is_distributed", "is_non_overlapping_and_dense", "is_strides_like_format", "result_type", "can_cast",
        "promote_types", "element_size", "get_device", "output_nr", "retains_grad", "retain_grad", "_version",
        "_is_zerotensor", "_has_same_storage_numel", "_has_compatible_shallow_copy_type", "_debug_has_internal_overlap",
        "sparse_dim", "dense_dim", "_dimI", "_dimV", "_nnz", "qscheme", "q_scale", "q_zero_point",
        "q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "cudnn_is_acceptable",
        "_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets", "_use_cudnn_ctc_loss",
        "_use_miopen_ctc_loss", "_use_cudnn_rnn_flatten_weight", "_shape_as_tensor",
        "_nested_compute_contiguous_strides_offsets", "_nested_tensor_from_mask_left_aligned", "device",
        "get_autocast_dtype", "is_autocast_enabled", "is_autocast_cpu_enabled", "is_grad_enabled", "_nnpack_available",
        "is_vulkan_available", "_get_tracing_state", "_get_cpu_capability", "_cufft_get_plan_cache_size",
        "_cufft_get_plan_cache_max_size", "_cufft_set_plan_cache_max_size", "_cufft_clear_plan_cache",
    )
))  # fmt: skip
# Reading a single value, assertions and marks.
free(*(
    f"aten::{name}"
    for name in (
        "item", "_local_scalar_dense", "is_nonzero", "_assert_async", "_functional_assert_async", "_assert_scalar",
        "_functional_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size",
        "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size", "_make_dep_token",
        "record_stream", "_linalg_check_errors", "_print", "warn", "set_grad_enabled", "manual_seed", "initial_seed",
        "seed", "backward", "_backward", "_propagate_xla_data", "_validate_compressed_sparse_indices",
        "_validate_sparse_compressed_tensor_args", "_validate_sparse_coo_tensor_args",
        "_validate_sparse_csr_tensor_args", "_validate_sparse_csc_tensor_args", "_validate_sparse_bsr_tensor_args",
        "_validate_sparse_bsc_tensor_args", "_sobol_engine_ff_", "_sobol_engine_initialize_state_",
        "_cudnn_init_dropout_state", "_test_check_tensor", "_autocast_to_full_precision",
        "_autocast_to_reduced_precision",
    )
))  # fmt: skip
free(*(
    f"prim::{name}"
    for name in (
        "device", "dtype", "layout", "data", "itemsize", "nbytes", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta",
        "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
        "is_xla", "is_xpu", "name", "grad", "id", "requires_grad",
    )
))  # fmt: skip
free(
    "profiler::_record_function_enter", "profiler::_record_function_enter_new", "profiler::_record_function_exit",
    "profiler::_call_end_callbacks_on_jit_fut", "prims::view_of", "prims::view_of_dtype", "prims::broadcast_in_dim",
    "prims::transpose", "prims::squeeze", "prims::split_dim", "prims::collapse_view", "prims::as_strided",
    "prims::_make_token", "prims::_sink_tokens", "inductor::_alloc_from_pool", "inductor::_reinterpret_tensor",
    "inductor::resize_storage_bytes_", "mkldnn::_nbytes", "mkldnn::data_ptr", "mkldnn::_is_mkldnn_acl_supported",
    "mkldnn::_is_mkldnn_bf16_supported", "mkldnn::_is_mkldnn_fp16_supported", "mkldnn::_get_mkldnn_serialized_md",
    "debug_mode_ops::annotate", "export::access_subclass_inner_tensor", "_c10d_functional::wait_tensor",
    "c10d::barrier", "c10d::monitored_barrier_", "cuda::synchronize", "cuda::current_stream", "cuda::default_stream",
    "cuda::set_stream", "cuda::_current_device", "cuda::_exchange_device", "cuda::_maybe_exchange_device",
    "cuda::_set_device", "cuda::device_count", "cuda::device_index", "torchvision::_cuda_version", "_test::get_first",
)  # fmt: skip
free(*(
    f"quantized::conv{kind}_{question}"
    for kind in ("2d", "3d", "_transpose2d", "_transpose3d")
    for question in ("stride", "padding", "output_padding", "dilation", "groups", "transpose")
))  # fmt: skip
