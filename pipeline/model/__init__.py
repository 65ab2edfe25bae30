"""The network and the generation orders: one Transformer, three verbs, one small object an order."""
