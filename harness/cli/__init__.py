"""What the commands of bench.py do; the file itself only names them."""
