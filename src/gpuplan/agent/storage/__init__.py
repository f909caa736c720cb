"""What gpuplan keeps on the node: record, lock, blobs and model repositories."""
