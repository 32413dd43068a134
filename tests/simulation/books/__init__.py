"""What must hold: books kept of all events, and judges of what is stored at the end."""
