"""Speed and memory, measured by hand: `python -m benchmarks`. Nothing here is a test."""
