"""Small state machines that two or more owners share."""
