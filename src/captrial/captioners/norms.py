"""The layer norm of ORT's and AoANet's published code, which is not quite everybody's."""

from __future__ import annotations

from torch import Tensor, nn


class LegacyNorm(nn.LayerNorm):
    """`(x - mean) / (std + 1e-6)` with the unbiased standard deviation, where others have `sqrt(variance + eps)`.

    The parameters are a layer norm's, so weights fit either.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(..., d) -> (..., d)."""
        centred = input - input.mean(-1, keepdim=True)
        return self.weight * centred / (input.std(-1, keepdim=True) + 1e-6) + self.bias


def use_legacy_norms(model: nn.Module) -> None:
    """Put a `LegacyNorm` in the place of every layer norm of a new model."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.LayerNorm:
                setattr(module, name, LegacyNorm(child.normalized_shape))
