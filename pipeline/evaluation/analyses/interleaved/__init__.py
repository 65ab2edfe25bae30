"""The analyses of Zhang, Titov and Sennrich (2020), interleaved bidirectional decoding."""
