"""What element types and compute configs cost in exactness: the error of one op, as a gain and a variance."""
