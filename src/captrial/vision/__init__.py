"""Picture to visual elements: grid, ViT, regions."""
