/* The life of a page in one pool: promised, handed out, written, shared through the prefix index,
 * given up, free again; and the check of (page, tag) around each read.
 *
 * Without any macro this is Bulkhead's pool (src/kv/page_pool.cc, page_table.cc, prefix_index.cc).
 * Each macro takes a mechanism away or lets a fault happen; variants.toml lists what must come out.
 *
 * Steps and bookkeeping interleave here more freely than in the program, where one thread does both:
 * a page may leave its life between check and read, which is what the second check is for.
 *
 * A prompt fills one page; a page holds the number of the prompt it was written for. Nobody's bytes
 * are 0, and that is what a page holds from the moment it is free.
 */
#define PAGES 2
#define PROMPTS 2
#ifndef SEQUENCES
#define SEQUENCES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

/* PagePool. Free: no leases. */
byte leases[PAGES], tag[PAGES], content[PAGES], label[PAGES];
byte last_tag = 0, promised = 0;

/* PrefixIndex: a node for each tenant and prompt. */
#define TENANTS 2
#define NODES (TENANTS * PROMPTS)
bit known[NODES];
byte node_page[NODES], node_tag[NODES], node_prompt[NODES];

#define IS_FREE(p) (leases[p] == 0)
#define FREE_PAGES ((leases[0] == 0) + (leases[1] == 0))

#if defined(COLLISION)
#define KEY_OF(tenant, prompt) (tenant * PROMPTS)
#elif defined(KEY_WITHOUT_TENANT)
#define KEY_OF(tenant, prompt) (prompt - 1)
#else
#define KEY_OF(tenant, prompt) (tenant * PROMPTS + prompt - 1)
#endif
#ifdef TOKENS_NOT_COMPARED
#define SAME_TOKENS(k) true
#else
#define SAME_TOKENS(k) (node_prompt[k] == prompt)
#endif

#ifdef PER_PAGE_TAGS
#define NEW_TAG(p) tag[p] = tag[p] + 1
#else
#define NEW_TAG(p) last_tag++; tag[p] = last_tag
#endif
#ifdef TAG_AT_ALLOCATION_ONLY
#define NEW_TAG_AT_FREE(p) skip
#else
#define NEW_TAG_AT_FREE(p) NEW_TAG(p)
#endif

/* A lease that is not there to be dropped is a mistake of ours; it cannot be, without a fault. */
inline drop(p) {
#ifndef FAULT
  assert(leases[p] > 0); /* a lease is dropped once */
#endif
  if
  :: leases[p] > 1 -> leases[p]--
  :: leases[p] == 1 ->
    leases[p] = 0;
    NEW_TAG_AT_FREE(p);
    content[p] = 0;
    label[p] = 0
  :: else
  fi
}

inline take(tenant) {
  promised--;
#ifndef FAULT
  assert(FREE_PAGES > 0); /* a promised page is free */
#endif
  if
  :: IS_FREE(0) -> p = 0
  :: IS_FREE(1) -> p = 1
  fi;
  leases[p] = 1;
  NEW_TAG(p);
  label[p] = tenant;
  t = tag[p] /* the tag that is expected from now on; never read back */
}

/* Taken from the index's record, not from the pool, where the table would be held against itself. */
inline share(k) {
  p = node_page[k];
#ifdef TAG_READ_BACK
  t = tag[p];
#else
  t = node_tag[k];
#endif
#ifndef FAULT
  assert(leases[p] > 0); /* the index names no free page */
#endif
#ifndef NO_READER_LEASE
  if
  :: leases[p] > 0 -> leases[p]++
  :: else /* the program would stop here; a fault may go on */
  fi;
#endif
  skip
}

#ifdef NO_CHECK_BEFORE
#define HOLDS_BEFORE true
#else
#define HOLDS_BEFORE (tag[q] == t && LABEL_HOLDS)
#endif
#ifdef NO_CHECK_AFTER
#define HOLDS_AFTER true
#else
#define HOLDS_AFTER (tag[q] == t && LABEL_HOLDS)
#endif
#ifdef CHECK_LABEL
#define LABEL_HOLDS (label[q] == tenant)
#else
#define LABEL_HOLDS true
#endif

proctype Sequence(byte tenant) {
  byte p, q, t, k, prompt, seen, round;
  bit ok, hit, shared;
  do
  :: round < ROUNDS ->
    round++;
    if
    :: prompt = 1
    :: prompt = 2
    fi;
    k = KEY_OF(tenant, prompt);

    /* Admission: a hit, or a promise of a page that is free now. */
    atomic {
      if
      :: known[k] && SAME_TOKENS(k) -> hit = 1; share(k) /* must be reached */
      :: !(known[k] && SAME_TOKENS(k)) && FREE_PAGES > promised -> hit = 0; promised++
      fi
    };

    if
    :: !hit ->
      atomic { take(tenant) };
      /* The step that fills it. */
#ifdef WRITE_APART_FROM_CHECK
      ok = (tag[p] == t);
      if
      :: ok -> content[p] = prompt
      :: else -> goto over
      fi;
#else
      atomic {
        if
        :: tag[p] == t -> content[p] = prompt
        :: else -> goto over
        fi
      };
#endif
      /* It becomes known, or this sequence changes over to the page that is known by now. */
      atomic {
        if
        :: !known[k] && leases[p] > 0 ->
          known[k] = 1;
          node_page[k] = p;
          node_tag[k] = t;
          node_prompt[k] = prompt;
          leases[p]++
        :: known[k] && node_page[k] != p && SAME_TOKENS(k) -> drop(p); share(k)
        :: else
        fi
      }
    :: else
    fi;

    /* The step that reads it, maybe through a table of pages that was overwritten. */
    q = p;
#ifdef MAPPING_FAULT
    if
    :: q = 1 - p
    :: true
    fi;
#endif
    ok = (HOLDS_BEFORE);
    if
    :: ok ->
      seen = content[q];
#ifdef EMITS_BEFORE_VERDICT
      assert(seen == prompt); /* wrong bytes */
#endif
#ifdef CHECKS_LABELS
      atomic {
        if
        :: HOLDS_AFTER -> assert(label[q] == tenant) /* foreign label */ /* must be reached */
        :: else
        fi
      }
#else
      if
      :: HOLDS_AFTER -> assert(seen == prompt) /* wrong bytes */ /* must be reached */
      :: else
      fi
#endif
    :: else
    fi;

over:
    atomic {
#ifdef NO_READER_LEASE
      if
      :: !hit -> drop(p)
      :: else
      fi;
#else
      drop(p);
#endif
      p = 0;
      q = 0;
      t = 0;
      k = 0;
      seen = 0;
      ok = 0;
      hit = 0
    }
  :: else -> break
  od
}

/* Who gives up pages that only the index holds, and who forgets all of it. */
active proctype Index() {
  byte k, p;
end:
  do
  :: atomic {
      if
      :: known[0] -> k = 0
      :: known[1] -> k = 1
      :: known[2] -> k = 2
      :: known[3] -> k = 3
      fi;
      p = node_page[k]
    };
#ifdef ENTRY_REMOVED_AFTER_FREE
    if
    :: atomic { known[k] && leases[p] == 1 -> drop(p) }; known[k] = 0 /* must be reached */
    :: true
    fi
#else
    atomic {
      if
      :: known[k] && leases[p] == 1 -> known[k] = 0; drop(p) /* eviction */ /* must be reached */
#ifdef FLUSH
      :: known[k] && leases[p] > 1 -> known[k] = 0; drop(p)
#endif
      :: else
      fi;
      k = 0;
      p = 0
    }
#endif
  od
}

#ifdef MISSED_REFERENCE
/* A lease is lost from the count. */
proctype Fault() {
  byte p;
  atomic {
    if
    :: leases[0] > 0 -> p = 0
    :: leases[1] > 0 -> p = 1
    :: true -> goto none
    fi;
    drop(p);
none:
    p = 0
  }
}
#endif

#ifdef BIT_FLIP
proctype Flip() {
  atomic {
    if
    :: content[0] > 0 -> content[0] = 3 - content[0]
    :: content[1] > 0 -> content[1] = 3 - content[1]
    :: true
    fi
  }
}
#endif

init {
  byte i;
  atomic {
    /* Every page has had a tag since the pool was made. */
    NEW_TAG(0);
    NEW_TAG(1);
    i = 0;
    do
    :: i < SEQUENCES ->
#ifdef TWO_TENANTS
      run Sequence(i);
#else
      run Sequence(0);
#endif
      i++
    :: else -> break
    od;
#ifdef MISSED_REFERENCE
    run Fault();
#endif
#ifdef BIT_FLIP
    run Flip();
#endif
    i = 0
  }
}
