"""The simulator: peers in virtual time on a seeded network, watched by an oracle that sees all."""
