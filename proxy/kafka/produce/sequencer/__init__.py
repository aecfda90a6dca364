"""How one producer's batches are split between target topic T and buffer topic B, under the producer's own id.

A batch of a delay-enabled partition holds `count` records from `base_sequence` on; `delayed` of them belong in B, the
rest (`immediate`) in T. Each log checks the sequences of each producer by itself, without gaps, so each part is
numbered anew. With D the delayed records that producer id and epoch sent to the partition before this batch:

    T part: base_sequence - D        B part: D        (all of it modulo 2**31)

D is not stored: it is the sequence that B expects next. What T and B expect next always adds up to the sequence
that comes next (a log that knows nothing of the epoch counts as 0). Nothing here is durable, and nothing is shared
between connections: what a connection does not know it asks the brokers, which keep it for the sake of idempotence.

The rule, for one producer id in one partition on one connection (a `Gate`):

 1. A batch without delayed records (*plain*) goes to T with its sequence shifted by D as soon as it comes, behind
    other plain ones that T has not yet answered: T judges the order, as it always does. While D is 0 that changes no
    byte. It goes only if D is certain, that is, right behind what is known to be plain: with a wrong D, T refuses it
    today, and takes it if it arrives later, when the shifted sequence has become the next one by accident.
    Where T refuses it as out of order (45) behind one that is to come again, it is answered what that one was.
 2. Any other batch waits until T has answered what is before it, and holds up what is behind it: it is the *head*.
 3. The head's T part goes **first**, its B part only when T has taken the first. So a definite refusal by T leaves B
    untouched, and a connection that reads both logs later finds that only the last batch begun can be in T alone.
 4. The head is done when B has taken its part. Then, and only then, D grows. The client gets T's offset, which is
    that of its first immediate record; -1 where T got none.
 5. A head that is not next in sequence is refused here: with an empty T part no broker would check its order. It is
    answered what the batch before it was answered, if that is to come again; else 45, after both logs were asked.
 6. Nothing is answered without a word from T: where T gets no records it gets a *probe*, which writes nothing and
    is answered 87 to a client that may write there.
 7. **What may be in a log is never called failed.** A batch of which a part is in T, or which may be in either log,
    either succeeds or ends in `Close`: the client sends the same sequences again, in order, on a new connection, and
    they are recognised there. An error would be a lie that clients act on: librdkafka, after an error for a batch and
    45 (out of order) for the next, moves both to a new epoch, in which T would store the first a second time.

**Not knowing D** (the first batch of a connection): B is asked (`Ask`) which sequence it expects. If it knows nothing
of the epoch, and the batch begins it at 0 with a part for T, D = 0 and T judges the order. Else T is asked, and B
again, until B answers the same before and after: an earlier connection's last writes may still be on their way. They
carry our sequences, so it does not matter when they land, but the answers of both logs must be of one moment. (Where
D = 0 and T gets a part, T judges, and B is not asked again. An epoch that succeeds another on this connection, and
begins at 0, has D = 0 unasked.) Then

    ahead = (T's next + B's next - base_sequence) mod 2**31

is how many records from `base_sequence` on are in the logs, and as only the last batch can be in T alone:

    ahead > count        all of the batch is there, and more: confirm it (probe), and go on with ahead - count
    ahead = count        it is the last that is there: write both again, from T's next - immediate and B's next -
                         delayed; each log recognises its own by its bounds, or answers 45 and stores nothing
    ahead = immediate    its T part is there: write both again, T recognises its own
    ahead = 0            nothing is there: write both
    otherwise            the logs have lost something, or the batch is not next: 45

A log that knows nothing of the epoch holds no part of the batch, whatever the sum is. A batch whose records could
not even be split (`refusal` without delayed records) never was in a log, and is refused.

**Where an epoch begins.** The sum is right only for sequences behind the point where the epoch began in the logs.
Kafka lets a producer of which a partition knows nothing begin anywhere, because it may have forgotten it; a new
epoch of a known producer begins at 0. Java makes use of the first by accident: after a definite refusal it begins a
new epoch at once, numbers what is in flight anew where it stands, and a later batch may arrive before an earlier
one. So, where neither log knows the epoch, it begins

  - at 0;
  - anywhere, if neither log knows an earlier epoch, this connection has not seen one, and this is the first batch
    of the epoch here: the producer was forgotten. If it is all delayed, B begins at its sequence, so that the sum
    is right;
  - behind a batch that was refused for good, if the logs and this connection know of nothing before, and the client
    knew of the refusal when it sent the batch (aiokafka goes on so). What had been sent by then is out of order:
    45, after which Java sends it again in its new epoch;
  - nowhere else: 45, as a broker answers that knows the producer.

Where an epoch began in the middle on this connection, nothing before that is ever taken for written. What either log
knows under a later epoch is fenced (47).

The session's own knowledge is the same three numbers (next, D, ahead). Where T, B or the batch's sequence contradicts
them, they are asked for anew before anything is answered.

What all this asks of others. *Of the split*: a function of the record's bytes alone, not of the clock or of anything
that may change between an attempt and its repetition. *Of the client*: at most five batches in flight (what both logs
recognise repetitions by), and to repeat a batch with the same bounds while it may have been written. *Of the relay*:
one upstream connection per client connection, closed together; nothing new is sent for a connection that is closed.

The open ends, and how each is tied:

  - acks=0: there is no answer to wait for, so the relay raises acks to 1 towards T and drops the answer; an error
    closes the connection, as a broker does. acks towards B is always -1.
  - Producers without sequences (id -1): the same order, nothing compared; a repetition may store a record twice, as
    it does without a proxy, and so B's failures are answered 19.
  - A batch too large for B, or invalid, is found before T has seen it (`Batch.refusal`), so that a client which
    splits it and repeats the sequences (Java, on 10) does so from a clean state.
  - B refuses for good: while T holds none of the batch, errors about the producer are passed on and others become 19;
    else rule 7, until the client gives the batch up. New batches can be refused before T sees them (`refusal` 19).
    The end of a transaction reaches the client through T, which answers 47 once the coordinator has ended it.
  - Transactions up to Produce 11 need AddPartitionsToTxn for B before every `SendBuffer`, later ones do not. What
    that is refused with, also 51 when it is no longer repeated, is reported as B's answer.
  - A definite error of T, in a transaction or not: nothing was written by it, and the next batch may be numbered from
    the same sequence (Java does so), because nothing is remembered of the refused one.
  - Wrap at 2**31: all arithmetic is modular, and sequence 0 means nothing for D.
  - Brokers forget a producer that has not written to a partition for `producer.id.expiration.ms` (a day by
    default). Forgotten by both: see above. Forgotten by T: T takes any sequence, and so do we. **Forgotten by B,
    while T remembers and the connection is new: D is lost**, and the batch is refused with 45. Java then starts a
    new epoch; librdkafka stops with a fatal error. The same where T has forgotten, B has not, and the first batch
    is all delayed. It goes unseen where D is exactly the number of plain records whose answers were lost. Set the
    expiration above the longest time between a producer's delayed records, and above the longest between its
    immediate ones.
  - An epoch that began in the middle is known to the connection on which it did, and to no other. **A batch from
    before that beginning, sent on another connection, is taken for written** if more records than it has lie
    between it and the end. It takes a partition that knows nothing of the producer; a leader that moves while
    batches are in flight (or anything else that makes a later batch the first of a new connection); and the loss of
    that connection before the earlier batch arrives, or its arrival on the old one.
  - A broker that restarts remembers only the last batch of each producer, so a plain batch before that, repeated
    while D is 0, is answered 45 by T. Clients meet that without a proxy too.

Sources: ProducerAppendInfo.checkSequence and ProducerStateEntry.findDuplicateBatch (Kafka's storage module),
TransactionManager.canRetry and RecordAccumulator.shouldStopDrainBatchesForPartition (Java client),
rd_kafka_handle_idempotent_Produce_error (librdkafka), KIP-98, KIP-360, KIP-664 (DescribeProducers), KIP-890.
"""

from proxy.kafka.produce.sequencer.events import (
    SEQUENCES,
    Answer,
    Ask,
    AskAnswered,
    AskFailed,
    Batch,
    BufferAnswered,
    Close,
    Event,
    LogRole,
    Output,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    TargetAnswered,
)
from proxy.kafka.produce.sequencer.session import GATES_MAX, Sequencer

__all__ = [
    "GATES_MAX",
    "SEQUENCES",
    "Answer",
    "Ask",
    "AskAnswered",
    "AskFailed",
    "Batch",
    "BufferAnswered",
    "Close",
    "Event",
    "LogRole",
    "Output",
    "ProbeTarget",
    "SendBuffer",
    "SendTarget",
    "Sequencer",
    "TargetAnswered",
]
