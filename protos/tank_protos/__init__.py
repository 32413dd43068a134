"""What is declared once and shared by every room: messages, data formats, errors."""
