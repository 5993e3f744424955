"""Identity disclosure: can a record be found?"""
