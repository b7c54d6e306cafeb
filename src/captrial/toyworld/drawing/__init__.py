"""Drawing the toy world: canvases and colours here; objects, backgrounds, effects and rendering in the modules.

`captrial.toyworld.drawing.rendering` draws the objects of a scene and composes the image.
"""

from captrial.toyworld.drawing.canvas import BackgroundCanvas, Extent, ObjectCanvas, Style
from captrial.toyworld.drawing.colours import COLOURS, RGB

__all__ = ["COLOURS", "RGB", "BackgroundCanvas", "Extent", "ObjectCanvas", "Style"]
