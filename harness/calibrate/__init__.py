"""Measures this machine and writes down what a roofline needs: a hardware preset of its own."""
