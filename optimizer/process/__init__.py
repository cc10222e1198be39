"""What any program needs: files, logs, deadlines, plugins, text formats."""
