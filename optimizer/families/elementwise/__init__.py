"""Element-wise ops of one, two and three operands."""
