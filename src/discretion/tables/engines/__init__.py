"""How complementary cells are chosen: one part per algorithm."""
