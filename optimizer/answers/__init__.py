"""What people ask of a model or a result, as records: the command prints them, the service sends them."""
