/* The handoff of a prompt's page from a prefill worker to a page of decode's pool, and what may go
 * wrong on the way.
 *
 * Without any macro this is Bulkhead's protocol (docs/transfer.md, src/transfer/remote/). Each macro
 * takes one mechanism away, puts another in its place, or lets the world misbehave in one more way;
 * variants.toml lists the combinations and what must come out. README.md says what is left out.
 *
 * A request has one page, of two halves; a half is one chunk. What a byte holds is the number of
 * the request whose prompt it belongs to, so the property is one line: a token leaves only if both
 * halves that were read are the request's own.
 */
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef PAGES
#define PAGES 2
#endif
#define NAMES (REQUESTS + 1)
#define NOBODY 0
#define FOREIGN 9 /* bytes of a prompt that is none of these requests */
#ifndef LOSSES
#define LOSSES 2
#endif

mtype = { GRANT, REVOKE };

/* Decode's pool. */
byte tag[PAGES], holder[PAGES], half_a[PAGES], half_b[PAGES];
byte last_tag = 0;

/* Decode's grants, by name. A name is 128 random bits there: here a number never used twice. */
byte last_name = 0;
bit is_open[NAMES];
byte granted_page[NAMES], granted_tag[NAMES];
byte arrived[NAMES]; /* one bit a half */
byte digest[NAMES];  /* of the page as it stood when it was whole */

/* Frames from decode to prefill; those back are flags, since each is repeated until it is heard. */
chan down = [3 * REQUESTS] of { mtype, byte, byte, byte, byte }; /* name, page, tag, request */
bit recorded[NAMES], acked[NAMES], given_up[NAMES]; /* commit record, revoke_ack, abort */
byte record_of[NAMES], record_session[NAMES];
byte session = 0;
byte lost = 0;

/* Prefill. */
byte source_bytes[REQUESTS + 1], source_tag[REQUESTS + 1];
bit leased[REQUESTS + 1], is_over[REQUESTS + 1], wants_answer[REQUESTS + 1];
byte sent_bytes[REQUESTS + 1];   /* what was read from the source page */
byte writes[REQUESTS + 1]; /* chunks that are on their way */

/* For properties alone. */
byte on_the_way[PAGES]; /* chunks for the page, wherever they are */
byte landing[PAGES];    /* of those, past the fence and not written yet */
bit ending[REQUESTS + 1], ended[REQUESTS + 1];

#ifdef STAMPS
byte head[PAGES], tail[PAGES];
#endif

#ifdef PER_PAGE_TAGS
#define NEW_TAG(p) tag[p] = tag[p] + 1
#else
#define NEW_TAG(p) last_tag++; tag[p] = last_tag
#endif

/* Time does not free a page here; these are the ways in which it could come back too early. */
#ifdef ONE_SIDED
#define QUIET(p) (on_the_way[p] == 0)
#else
#define QUIET(p) (landing[p] == 0)
#endif

#ifdef NO_SESSION_NONCE
#define OF_THIS_SESSION(s) true
#else
#define OF_THIS_SESSION(s) (s == session)
#endif

/* Landing::land() behind Receiver::hear_chunk() behind Session::take(). */
#define MAY_WRITE                                                                     \
  (OF_THIS_SESSION(s) && is_open[n] && granted_page[n] == p && granted_tag[n] == t &&   \
   tag[p] == t && (arrived[n] & (1 << half)) == 0)

#define NOTE_ARRIVAL                                                                  \
  arrived[n] = arrived[n] | (1 << half);                                             \
  if                                                                                 \
  :: arrived[n] == 3 -> digest[n] = DIGEST(p)                                        \
  :: else                                                                            \
  fi

/* Of two halves of one prompt: its number. */
#define TORN 8
#define DIGEST(p) (half_a[p] == half_b[p] -> half_a[p] : TORN)

#define STORE                                                                         \
  if                                                                                 \
  :: half == 0 -> half_a[p] = bytes                                                  \
  :: else -> half_b[p] = bytes                                                       \
  fi

inline send_record(n, r) {
  recorded[n] = 1;
  record_of[n] = r;
  record_session[n] = session
}

/* The chunk is nowhere any more. */
inline leave() {
  on_the_way[p]--;
  writes[r]--;
#ifdef ONE_SIDED
  /* Only here does its sender learn that it is over. */
  if
  :: writes[r] == 0 && wants_answer[r] -> acked[n] = 1
  :: writes[r] == 0 && !is_over[r] -> send_record(n, r)
  :: else
  fi;
#endif
  skip
}

/* A chunk on its way: everything may overtake it. */
proctype Chunk(byte n; byte p; byte t; byte r; byte bytes; byte s; bit half) {
#ifdef TWICE
  bit again = 0;
arrives:
  skip;
#endif
#if defined(ONE_SIDED)
  /* A write that the network does by itself, in steps. */
#ifdef STAMPS
  if
  :: half == 0 -> head[p] = t
  :: else
  fi;
#endif
  atomic { STORE };
#ifdef STAMPS
  if
  :: half == 1 -> tail[p] = t
  :: else
  fi;
#endif
  atomic { leave() }
#elif defined(COMPARE_THEN_APPLY)
  atomic {
    if
    :: MAY_WRITE -> landing[p]++
    :: else -> leave(); goto gone
    fi
  };
  atomic { STORE; NOTE_ARRIVAL; landing[p]--; leave() };
gone:
  skip
#else
  atomic {
#ifdef LOSE_CHUNKS
    if
    :: lost < LOSSES -> lost++; goto gone
    :: true
    fi;
#endif
    if
    :: MAY_WRITE -> STORE; NOTE_ARRIVAL
    :: else
    fi;
#ifdef TWICE
    if
    :: !again -> again = 1; goto arrives
    :: true
    fi;
#endif
#ifdef LOSE_CHUNKS
gone:
#endif
    leave()
  }
#endif
}

inline post(n, p, t, r) {
  sent_bytes[r] = source_bytes[r];
  on_the_way[p] = on_the_way[p] + 2;
  writes[r] = 2;
  run Chunk(n, p, t, r, sent_bytes[r], session, 0);
  run Chunk(n, p, t, r, sent_bytes[r], session, 1)
}

inline give_up(n, r) {
  is_over[r] = 1;
  leased[r] = 0;
  given_up[n] = 1
}

/* Sender: one step thread. */
active proctype Prefill() {
  byte n, p, t, r, first_tag;
end:
  do
#ifdef UNORDERED
  :: down ?? GRANT(n, p, t, r) ->
#else
  :: down ? GRANT(n, p, t, r) ->
#endif
    first_tag = 1; /* of the source page when it was offered */
    if
    :: is_over[r] /* it was revoked meanwhile */
#ifdef PREFILL_GIVES_UP
    :: !is_over[r] -> atomic { give_up(n, r) }
#endif
    :: !is_over[r] ->
      atomic { post(n, p, t, r) };
#ifdef PREFILL_GIVES_UP
      if
      :: true -> atomic { give_up(n, r) }
      :: true
      fi;
#endif
#ifndef ONE_SIDED
      atomic {
        if
#ifndef SOURCE_NOT_READ_AGAIN
        :: !is_over[r] && source_tag[r] != first_tag -> give_up(n, r)
        :: !is_over[r] && source_tag[r] == first_tag -> send_record(n, r)
#else
        :: !is_over[r] -> send_record(n, r)
#endif
        :: is_over[r]
        fi
      }
#endif
    fi
#ifdef UNORDERED
  :: down ?? REVOKE(n, p, t, r) ->
#else
  :: down ? REVOKE(n, p, t, r) ->
#endif
    atomic {
      is_over[r] = 1;
      leased[r] = 0;
      if
#ifdef ACK_AFTER_LAST_WRITE
      :: writes[r] > 0 -> wants_answer[r] = 1
#endif
#ifdef LOSE_ACKS
      :: lost < LOSSES -> lost++
#endif
#ifdef ACK_AFTER_LAST_WRITE
      :: writes[r] == 0 -> acked[n] = 1
#else
      :: true -> acked[n] = 1
#endif
      fi
    }
  od
}

#ifdef SOURCE
/* Another prompt wants a page of prefill's. */
proctype NextPrompt(byte r) {
  atomic {
#ifndef SOURCE_NOT_HELD
    !leased[r];
#endif
    source_bytes[r] = FOREIGN;
    source_tag[r] = 2
  }
}
#endif

/* The connection breaks, and another one comes about. */
#ifdef SESSION_LOST
proctype Break() {
  atomic {
    session++;
    do
    :: nempty(down) -> down ? _, _, _, _, _
    :: empty(down) -> break
    od
  }
}
#endif

/* Decode's process ends at any moment and starts anew. */
#ifdef RESTART
proctype Restart() {
  byte i;
  atomic {
    session++;
#ifdef NAMES_REPEAT
    last_name = 0;
#endif
#ifdef TAGS_REPEAT
    last_tag = 0;
#endif
    i = 0;
    do
    :: i < PAGES -> holder[i] = NOBODY; half_a[i] = NOBODY; half_b[i] = NOBODY; tag[i] = 0; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < NAMES -> is_open[i] = 0; arrived[i] = 0; digest[i] = 0; i++
    :: else -> break
    od;
    do
    :: nempty(down) -> down ? _, _, _, _, _
    :: empty(down) -> break
    od
  }
}
#endif

#if defined(SESSION_LOST)
#define SESSION_OVER (session != s)
#else
#define SESSION_OVER false
#endif

inline free_page() {
  holder[p] = NOBODY;
  NEW_TAG(p);
  ended[r] = 1
}

#ifdef ONE_SIDED
#define WHOLE true /* the sender says so */
#define FITS (DIGEST(p) == sent_bytes[record_of[n]])
#else
#ifdef NO_COVER
#define WHOLE true
#else
#define WHOLE (arrived[n] == 3)
#endif
#define FITS (digest[n] == sent_bytes[record_of[n]])
#endif
#ifdef NO_DIGEST
#define DIGEST_HOLDS true
#else
#define DIGEST_HOLDS (FITS)
#endif

#ifdef STAMPS
#define STAMPS_HOLD (head[q] == t && tail[q] == t)
#else
#define STAMPS_HOLD true
#endif
#ifdef STAMPS_AFTER
#define STAMPS_STILL_HOLD (head[q] == t && tail[q] == t)
#else
#define STAMPS_STILL_HOLD true
#endif
#ifdef CHECK_TABLE
#define TABLE_HOLDS (tag[q] == t)
#else
#define TABLE_HOLDS true
#endif
#ifdef DIGEST_AT_READ
#define DIGEST_AT_READ_HOLDS (half_a[q] == r && half_b[q] == r)
#else
#define DIGEST_AT_READ_HOLDS true
#endif

/* A request at decode: everything of it that touches the pool happens on one step thread, so what
 * stands in one atomic block is one call there. */
proctype Request(byte r) {
  byte n, p, q, t, s, a, b;
  bit ok, admitted;
#ifdef RESTART
  {
#endif
  /* Admission, and Receiver::grant(). */
  atomic {
    if
    :: holder[0] == NOBODY -> p = 0
#if PAGES > 1
    :: holder[1] == NOBODY -> p = 1
#endif
    fi;
#ifdef CHECK_REUSE
    assert(QUIET(p)); /* early reuse */
#endif
    holder[p] = r;
    NEW_TAG(p);
    t = tag[p];
    last_name++;
    n = last_name;
    is_open[n] = 1;
    granted_page[n] = p;
    granted_tag[n] = t;
    s = session;
    admitted = 1;
    down ! GRANT(n, p, t, r)
  };

  if
  :: recorded[n] && OF_THIS_SESSION(record_session[n]) ->
    atomic {
      ok = (record_of[n] == r && WHOLE && DIGEST_HOLDS && tag[p] == t);
      if
      :: ok -> is_open[n] = 0; leased[r] = 0 /* accept */
      :: else -> goto refuse
      fi
    }
  :: given_up[n] -> atomic { is_open[n] = 0; goto release }
  :: SESSION_OVER -> atomic { is_open[n] = 0; goto release }
  :: true -> goto refuse /* its owner gave up, or its lease ran out */
  fi;

  /* A step that reads the page, through a table of pages that may be at fault. */
  q = p;
#ifdef MAPPING_FAULT
  if
  :: true -> q = 1 - p
  :: true
  fi;
#endif
  ok = (TABLE_HOLDS && STAMPS_HOLD && DIGEST_AT_READ_HOLDS);
  a = half_a[q];
  b = half_b[q];
  atomic {
    ok = (ok && STAMPS_STILL_HOLD && DIGEST_AT_READ_HOLDS);
    if
    :: ok -> assert(a == r && b == r) /* wrong bytes */ /* must be reached */
    :: else
    fi;
    q = 0;
    a = 0;
    b = 0;
    ok = 0;
    goto release
  };

refuse:
#ifdef FREE_AT_ABORT
  atomic { ending[r] = 1; is_open[n] = 0; down ! REVOKE(n, p, t, r) };
#else
#if defined(WAIT_FOR_ACK) || defined(CLOCK_FREES)
  /* The writer keeps its right meanwhile. */
  atomic { ending[r] = 1; down ! REVOKE(n, p, t, r) };
  if
  :: acked[n]
#ifdef CLOCK_FREES
  :: true
#endif
  fi;
  is_open[n] = 0;
#else
  /* Receiver::refuse(): the right ends first; the pages rest in quarantine until the answer. */
  atomic { ending[r] = 1; is_open[n] = 0; down ! REVOKE(n, p, t, r) };
  do
  :: acked[n] || given_up[n] -> break /* must be reached */
  :: SESSION_OVER -> break
#ifndef ASK_ONCE
  :: !acked[n] && !given_up[n] && empty(down) -> down ! REVOKE(n, p, t, r)
#endif
  od;
#endif
#endif

release:
#ifdef PIN
  atomic { landing[p] == 0; free_page() }
#else
  atomic { free_page() }
#endif
#ifdef RESTART
  } unless { admitted && session != s }
#endif
}

init {
  byte i;
  atomic {
    i = 1;
    do
    :: i <= REQUESTS ->
      source_bytes[i] = i;
      source_tag[i] = 1;
      leased[i] = 1;
      run Request(i);
#ifdef SOURCE
      run NextPrompt(i);
#endif
      i++
    :: else -> break
    od;
#ifdef SESSION_LOST
    run Break();
#endif
#ifdef RESTART
    run Restart();
#endif
    i = 0
  }
}

#ifdef LIVE
ltl what_ends_is_freed { [] (ending[1] -> <> ended[1]) }
#endif
