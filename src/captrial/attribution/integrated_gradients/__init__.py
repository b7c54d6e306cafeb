"""Integrated gradients: by quadrature (`integration`), and over pixels through a backbone (`backbone_path`)."""

from captrial.attribution.integrated_gradients.backbone_path import BackbonePath
from captrial.attribution.integrated_gradients.integration import Integral, QuadratureRule, gauss_legendre, integrate

__all__ = ["BackbonePath", "Integral", "QuadratureRule", "gauss_legendre", "integrate"]
