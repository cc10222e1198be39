"""What is said of a result, in the same words wherever it is read: units, figures, layouts, reasons."""
