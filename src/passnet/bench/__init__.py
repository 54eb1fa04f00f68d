"""Speed, side by side: passnet's layers against what else a PyTorch user could run."""
