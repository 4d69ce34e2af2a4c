"""What memory holds about one subject, and the name of the user.

about            all cards of a subject, its profile and its history; one card and its source
user_name        the name that the user gave: "My name is Oskar"
"""
