"""What users write: programs in text, tile DAGs in JSON, kernels in Python files; and the rules that it keeps."""
