"""Shape rules: outputs of the operators whose meta kernels are dear (they are Python, up to milliseconds a call).

A rule takes the call's arguments and returns, for each output, (shape, strides, dtype) or a plain value, or None
where the case is not the plain one: then the meta kernel decides. Rules check what the kernel would check, so bad
shapes still raise.
"""

from . import attention, elementwise, movement, normalisation, products
from ._layout import SHAPES, shape_rule

__all__ = ["SHAPES", "attention", "elementwise", "movement", "normalisation", "products", "shape_rule"]
