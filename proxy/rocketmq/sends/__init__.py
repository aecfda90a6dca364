"""Sends of clients: which messages are delayed, and what is sent in their place.

    request    the three forms of a send as one, and the refusals
    delays     from a message's properties to its directives, by RocketMQ's rules
    screen     which messages of a send are delayed, or refused
    split      a send made into one for the topic and one for its buffer
    answers    the broker's answer, as the client expects it
    buffers    buffers made ready at the first delayed message
    sender     sends of one connection under way

All but the last two are pure.
"""
