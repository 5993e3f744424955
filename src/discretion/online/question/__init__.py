"""What is asked and what is told: questions as data or in SQL, answers, and what answers would cost."""
