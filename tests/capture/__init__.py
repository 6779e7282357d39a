"""What a capture records, by equivalence: with and without memory, on shapes and for real, alone and among others."""
