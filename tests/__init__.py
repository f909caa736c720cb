"""The tests of gpuplan."""
