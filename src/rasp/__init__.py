"""rasp: what each part of a PyTorch model costs."""
