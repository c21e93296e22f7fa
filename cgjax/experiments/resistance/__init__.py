"""Does gradient descent use what it should ignore? (anonymous, under review)"""
