"""Image to visual elements: grid, ViT, regions."""
