"""What the library costs, beside its peers: ``python -m benchmarks``, see README.md here."""
