"""The way from a scene to an image, one statically shaped stage a file."""
