"""What tests, fuzzers and benchmarks share: starting jobs, small datasets and records, virtual hosts. No tests here."""
