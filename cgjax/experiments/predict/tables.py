def of(*a):
    return []
