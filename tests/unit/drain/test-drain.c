/*
 * The drain's rules, one after the other as its header words them: scripts and what they lead to.
 */
#include "drain-script.h"
#include "groups.h"

#define CHECK(rows) script_check(rows, NC_ARRAY_SIZE(rows))

/* P1, P2: excluded pods are never touched, in no way. */
static void test_excluded(void **state) {
    static const struct script_row rows[] = {
        {"each reason, without a deadline",
         "rules karpenter\nsee a ended\nsee b mirror\nsee c tolerates\nsee d daemon tier=1\nsee e "
         "del=-61/30\nat "
         "0\nnext\nsum",
         "0:\nnext never\nsum terminal=1 mirror=1 tolerating=1 daemonset=1 stuck=1 progress=-91\n"},
        {"each reason, at the force-delete time and after it",
         "rules t=30 karpenter\nsee a ended\nsee b mirror\nsee d daemon tier=1\nsee e "
         "del=-61/30\nat 0\nat 40\nnext",
         "0:\n40:\nnext never\n"},
        {"a DaemonSet's pod goes where the disrupted taint stands",
         "rules taint\nsee d daemon tier=1\nat 0", "0: evict d\n"},
        {"and is deleted at its force-delete time there",
         "rules t=20 taint\nsee d daemon tier=1\nat 0\nanswer evict d refused\nat 0",
         "0: evict d 20\n0: mark d\n"},
        {"who tolerates the taint is evicted where no Karpenter drains, also where it came late",
         "see a tolerates\nlisted\nat 0\nanswer evict a accepted\ngone a\nat 1\nsee b "
         "tolerates\nat 1.5\nsum",
         "0: evict a\n1:\n1.5: evict b\nsum total=2 remaining=1 evicted=1 progress=0\n"},
        {"under a deadline at once", "rules t=100\nlisted\nat 0\nsee b tolerates\nat 0.5",
         "0:\n0.5: evict b\n"},
        {"where Karpenter does, not before its force-delete time, and it is waited for",
         "rules t=100 karpenter\nsee a tolerates\nsee b tier=2\nat 0\nat 68\nsum\nat 69\nanswer "
         "evict a "
         "refused\nat 69\nanswer mark a accepted\nat 70",
         "0: evict b\n68:\nsum total=2 remaining=2\n69: mark b, evict a\n69: mark a\n70: delete a "
         "30, "
         "delete b 30\n"},
        {"a tolerating pod of a DaemonSet stays also where the taint stands",
         "rules t=20 taint\nsee d daemon tolerates tier=1\nat 0", "0:\n"},
        {"a pod that ends by itself is no concern any more",
         "see a\nsee b tier=2\nat 0\nanswer evict a budget\nsee a ended\nat 1\nsum",
         "0: evict a\n1: evict b\nsum total=2 remaining=1 terminal=1 progress=0\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P2: what a controller puts back is left after its first return. */
static void test_put_back(void **state) {
    static const struct script_row rows[] = {
        {"without a deadline it is neither evicted nor waited for, and named",
         "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b of=x "
         "tolerates created=2\nat 2\nnext\nlines\nsum",
         "0: evict a\n2:\nnext never\nb put-back\nsum total=1 evicted=1 put-back=1 progress=0\n"},
        {"also where it comes while the one before still ends",
         "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\nsee a of=x "
         "del=30/30\nsee b of=x tolerates created=0\nat 1\nlines",
         "0: evict a\n1:\na leaving, b put-back\n"},
        {"with a deadline at its force-delete time, and the tiers behind it do not wait",
         "rules t=100 cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b "
         "of=x tolerates created=2\nsee c tier=2\nat 2\nat 68\nsum\nat 69\nanswer evict b "
         "accepted\nat 70",
         "0: evict a\n2: evict c\n68:\nsum total=3 remaining=2 evicted=1 progress=0\n69: mark c, "
         "evict b\n70: delete b 30, delete c 30\n"},
        {"what comes back after that is left",
         "rules t=100 cordon=-5\nsee a of=x\nlisted\nat 69\nanswer evict a accepted\ngone a\nsee b "
         "of=x tolerates created=71\nat 72\nlines\nsum",
         "69: evict a\n72:\nb put-back\nsum total=1 evicted=1 put-back=1 progress=69\n"},
        {"a deadline that comes later counts",
         "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b of=x "
         "tolerates created=2\nat 2\nrules t=100 cordon=-5\nat 68\nat 69",
         "0: evict a\n2:\n68:\n69: evict b\n"},
        {"one that does not tolerate the cordon may have been bound before it was known",
         "rules cordon=-1\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b of=x "
         "created=1\nat 2\nsee c of=x created=5\nat 6\nlines",
         "0: evict a\n2: evict b\n6:\nb, c put-back\n"},
        {"one that nobody controls comes back by whoever made it",
         "rules cordon=-5\nsee a\nsee c of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b "
         "tolerates created=2\nsee d of=y tolerates created=2\nat 2\nlines",
         "0: evict a, evict c\n2: evict d\nb put-back, c, d\n"},
        {"nor one of another namespace",
         "rules cordon=-5\nsee a\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b ns=other "
         "tolerates created=2\nat 2",
         "0: evict a\n2: evict b\n"},
        {"nor is another controller's, one's of none, or one that was there before the cordon",
         "rules cordon=0\nsee a of=x\nlisted\nat 1\nanswer evict a accepted\nsee b of=y tolerates "
         "created=2\nsee c tolerates created=2\nsee d of=x tolerates created=-1\nat 3",
         "1: evict a\n3: evict b, evict c, evict d\n"},
        {"nor where the one before was not ended here",
         "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a budget\nsee b of=x tolerates "
         "created=1\nat 0.5",
         "0: evict a\n0.5: evict b\n"},
        {"the next drain begins anew",
         "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\ngone a\nsee b of=x "
         "tolerates created=2\nat 2\nrestart\nat 3",
         "0: evict a\n2:\n3: evict b\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P5: replacement first: not evicted before replaced_by, nor held beyond its force-delete time. */
static void test_replacement_first(void **state) {
    static const struct script_row rows[] = {
        {"not before its limit, which is foretold; the others of its tier are",
         "rules replaced=600\nsee a waits\nsee b\nat 0\nsum\nlines\nnext\nat 599.999999\nat "
         "600\nsum\nlines",
         "0: evict b\nsum total=2 remaining=2 waiting=1\na waiting, b\nnext 600\n599.999999:\n600: "
         "evict a\nsum total=2 remaining=2\na, b\n"},
        {"where it is replaced, its owner deletes it, and the next tier has its turn",
         "rules replaced=600\nsee a waits\nsee b tier=2\nat 0\nsee a waits del=40/30\nat "
         "10\nsum\ngone a\nat 12",
         "0:\n10:\nsum total=2 remaining=2 leaving=1 progress=0\n12: evict b\n"},
        {"without a limit it is as any other", "rules\nsee a waits\nat 0", "0: evict a\n"},
        {"at its force-delete time nobody waits",
         "rules t=1000 replaced=990\nsee a waits\nat 0\nat 968.999999\nat 969\nat 970",
         "0:\n968.999999:\n969: evict a\n970: mark a\n"},
        {"under a deadline it holds up the tiers behind it while their own grace allows",
         "rules t=100 replaced=90\nsee a waits\nsee b tier=2\nat 0\nat 68", "0:\n68: evict b\n"},
        {"a limit that is withdrawn ends the wait at once",
         "rules replaced=600\nsee a waits\nat 0\nrules t=100\nnext\nat 1",
         "0:\nnext now\n1: evict a\n"},
        {"kept is kept beyond it",
         "rules replaced=600\nsee a waits keep=700\nat 0\nsum\nat 600\nat 700",
         "0:\nsum total=1 remaining=1 kept=1\n600:\n700: evict a\n"},
        {"where others drain, it does not wait for us",
         "rules watch replaced=600\nsee a waits\nat 0\nsum", "0:\nsum total=1 remaining=1\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P6 */
static void test_tiers(void **state) {
    static const struct script_row rows[] = {
        {"one tier after the other, each when the one before is gone",
         "rules taint\nsee d tier=3 daemon\nsee c tier=2\nsee b tier=1 daemon\nsee a\nat 0\nanswer "
         "evict a accepted\nat 1\nsee a del=31/30\nat 2\ngone a\nat 3\nanswer evict b "
         "accepted\ngone b\nat 4\nanswer evict c accepted\ngone c\nat 5",
         "0: evict a\n1:\n2:\n3: evict b\n4: evict c\n5: evict d\n"},
        {"within a tier by namespace and name",
         "see b ns=x\nsee z ns=a\nsee a ns=x\nsee c tier=2\nat 0",
         "0: evict z, evict a, evict b\n"},
        {"a kept pod holds up the tiers behind it", "see a never\nsee b tier=2\nat 0\nat 1000",
         "0:\n1000:\n"},
        {"a stuck pod does not any more, from a moment on that is foretold",
         "see a del=10/30\nsee b tier=2\nat 0\nnext\nat 70\nat 70.000001",
         "0:\nnext 12\n70:\n70.000001: evict b\n"},
        {"nor does one that is excluded", "see a mirror\nsee b tier=2\nat 0", "0: evict b\n"},
        {"under a deadline too, however far it is: an application needs 40 of its 60 s",
         "rules t=86400 taint\nsee a grace=60\nsee d tier=1 daemon\nat 0\nanswer evict a "
         "accepted\nsee a grace=60 del=60/60\nat 39.9\nnext\ngone a\nat 40",
         "0: evict a\n39.9:\nnext 62\n40: evict d\n"},
        {"at a notice of 20 s: it needs 8 of its 10 s",
         "rules t=17.5 taint\nsee a grace=10\nsee d tier=1 daemon grace=5\nat 0\nanswer evict a "
         "accepted\nsee a grace=10 del=10/10\nat 7.9\ngone a\nat 8",
         "0: evict a\n7.9:\n8: evict d\n"},
        {"until its own whole grace, and one eviction more where the first is refused, fill what "
         "is "
         "left: each pod for itself",
         "rules t=100\nsee a never\nsee b tier=2\nsee c tier=2 grace=60\nat 0\nnext\nat 38\ngone "
         "c\nat 67.999999\nnext\nat 68\nanswer evict b budget\nat 68.999999\nanswer evict b "
         "accepted\nsee b del=98/30\nat 70",
         "0:\nnext 38\n38: evict c\n67.999999:\nnext 68\n68: evict b\n68.999999: evict "
         "b#2\n70: evict a\n"},
        {"where that has passed, at once", "rules t=31\nsee a\nsee b tier=2\nat 0",
         "0: evict a, evict b\n"},
        {"a blocked pod holds them up no longer",
         "rules t=100\nsee a grace=60\nsee b tier=2\nat 0\nanswer evict a budget\nat "
         "67.999999\nat 68",
         "0: evict a\n67.999999: mark a\n68: evict b\n"},
        {"nor one that somebody else has deleted",
         "rules t=100\nsee a del=95/100\nsee b tier=2\nat 0\nat 67.999999\nat 68",
         "0:\n67.999999:\n68: evict b\n"},
        {"nor one whose eviction hangs",
         "rules t=100\nsee a grace=0\nsee b tier=2\nat 0\nat 67.999999\nnext\nat 68",
         "0: evict a\n67.999999:\nnext 68\n68: evict b\n"},
        {"who is left to Karpenter holds up nobody",
         "rules t=86400 karpenter\nsee a tolerates\nsee b tier=2\nat 0", "0: evict b\n"},
        {"without one each holds it up", "see a\nsee b tier=2\nat 0\nanswer evict a budget\nat 0.1",
         "0: evict a\n0.1:\n"},
        {"a pod of an earlier tier that comes late has its turn first",
         "see b tier=2\nsee c tier=2\nrules max=1\nat 0\nsee a\nanswer evict b accepted\nat 1",
         "0: evict b\n1: evict a\n"},
        {"a pod whose tier changes stands elsewhere",
         "rules max=1\nsee a\nsee b\nsee c tier=2\nsee a tier=2\nlines\nat 0",
         "b, a, c\n0: evict b\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P3, P4, P10: the tier's turn, not terminating, not kept, no pause, fewer than max in flight. */
static void test_graceful(void **state) {
    static const struct script_row rows[] = {
        {"a terminating pod is not evicted", "see a del=30/30\nat 0\nsum",
         "0:\nsum total=1 remaining=1 leaving=1 progress=0\n"},
        {"a kept pod is not, until its time is over",
         "see a keep=50\nat 0\nnext\nsum\nat 49.999999\nat 50\nsum",
         "0:\nnext 50\nsum total=1 remaining=1 kept=1\n49.999999:\n50: evict a\nsum total=1 "
         "remaining=1\n"},
        {"nor until the annotation is taken away", "see a never\nat 0\nsee a\nat 1",
         "0:\n1: evict a\n"},
        {"one that is annotated after a refusal is kept",
         "see a\nat 0\nanswer evict a budget\nsee a never\nat 9\nsum",
         "0: evict a\n9:\nsum total=1 remaining=1 kept=1\n"},
        {"where there is not room for all, who waits longest is asked first",
         "rules max=1\nsee a\nsee b\nsee c\nat 0\nanswer evict a budget\nat 0\nanswer evict b "
         "failed\nat 0.9\nat 2\nanswer evict c budget\nat 2\nanswer evict b budget\nat 2",
         "0: evict a\n0: evict b\n0.9: evict c\n2:\n2: evict b#2\n2: evict a#2\n"},
        {"one namespace whose evictions hang does not hold up another",
         "rules max=3\nsee a ns=a\nsee b ns=a\nsee c ns=a\nsee z ns=z\nat 0\nanswer evict z "
         "budget\nat 0\nanswer evict a failed\nat 5\nanswer evict b failed\nat 10",
         "0: evict a, evict z, evict b\n0: evict c\n5: evict z#2\n10: evict a#2\n"},
        {"force-delete times take no room from evictions",
         "rules t=30 max=1\nsee a\ntried\nsee b grace=5\nat 0", "0: mark a, evict b\n"},
        {"at most max_in_flight evictions are under way",
         "rules max=2\nsee a\nsee b\nsee c\nat 0\nnext\nanswer evict b accepted\nat 1\nnext",
         "0: evict a, evict b\nnext never\n1: evict c\nnext 2\n"},
        {"a budget of none is one", "rules max=0\nsee a\nsee b\nat 0", "0: evict a\n"},
        {"nobody may use more than the server's streams",
         "rules max=100000\nsee a\nat 0\nanswer evict a busy\nsum",
         "0: evict a\nsum total=1 "
         "remaining=1\n"},
        {"where others drain, nothing is evicted",
         "rules watch\nsee a\nat 0\nnext\nrules\nnext\nat 1",
         "0:\nnext never\nnext now\n1: evict a\n"},
        {"with T only before the force-delete time",
         "rules t=100\nsee a\ntried\nat 69.999999\nanswer mark a accepted\nanswer evict a "
         "budget\nrules t=130\nat 71",
         "69.999999: mark a, evict a#2\n71: evict a#3\n"},
        {"an eviction is not asked at the force-delete time",
         "rules t=100\nsee a never\ntried\nat 0\nsee a\nat 70", "0:\n70: mark a\n"},
        {"an accepted eviction is never asked again, whatever the watch shows",
         "see a\nat 0\nanswer evict a accepted\nat 1\nsee a\nat 100\nsum\nsee a del=130/30\nat "
         "101\nrestart\nsee a\nat 200",
         "0: evict a\n1:\n100:\nsum total=1 remaining=1 leaving=1 progress=0\n101:\n200:\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P13: bound a moment ago: admission may not know of the pod yet. */
static void test_fresh(void **state) {
    static const struct script_row rows[] = {
        {"who is there when all are listed is asked at once", "see a\nlisted\nat 0",
         "0: evict a\n"},
        {"who comes later is left alone for half a second",
         "listed\nat 0\nsee a\nat 0\nnext\nat 0.499999\nat 0.5",
         "0:\n0:\nnext 0.5\n0.499999:\n0.5: evict a\n"},
        {"also at its force-delete time",
         "listed\nrules t=20\nat 0\nsee a\nat 0\nat 0.5\nanswer evict a refused\nat 0.5\n"
         "answer mark a accepted\nat 0.5",
         "0:\n0:\n0.5: evict a 20\n0.5: mark a\n0.5: delete a 20\n"},
        {"a new drain lists anew", "listed\nrestart\nat 0\nsee a\nat 0", "0:\n0: evict a\n"},
    };

    (void)state;
    CHECK(rows);
}

/* Deletions are counted when they are accepted, whatever the watch shows by then. */
static void test_deletions_are_counted(void **state) {
    static const struct script_row rows[] = {
        {"the watch is first",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nsee a del=30/30\nanswer "
         "delete "
         "a accepted\nsum",
         "0: mark a\n0: delete a 30\nsum total=1 remaining=1 leaving=1 deleted=1 progress=0\n"},
        {"and the pod has ended by then",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nsee a del=30/30 "
         "ended\nanswer "
         "delete a accepted\nsum",
         "0: mark a\n0: delete a 30\nsum total=1 deleted=1 terminal=1 progress=0\n"},
        {"and the pod is gone by then",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\ngone a\nsum\nanswer delete "
         "a "
         "accepted\nsum",
         "0: mark a\n0: delete a 30\nsum total=1 deleted=1 progress=0\nsum total=1 deleted=1 "
         "progress=0\n"},
        {"shortening is no deletion of ours",
         "rules t=30\nsee a del=100/100\nat 0\nanswer delete a accepted\nsum",
         "0: delete a 30\nsum total=1 remaining=1 leaving=1 progress=0\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P8: force-delete time: T - grace. Mark, then delete with the time that is left. */
static void test_force_delete_time(void **state) {
    static const struct script_row rows[] = {
        {"a mark one second ahead, then the deletion at the moment",
         "rules t=100\nsee a never\ntried\nat 0\nnext\nat 68.999999\nat 69\nanswer mark a "
         "accepted\nnext\nat 69.999999\nat 70\nsum",
         "0:\nnext 69\n68.999999:\n69: mark a\nnext 70\n69.999999:\n70: delete a 30\nsum total=1 "
         "remaining=1 forcing\n"},
        {"the deletion waits for the mark, but not beyond a second",
         "rules t=100\nsee a never\ntried\nat 69.5\nnext\nat 70\nnext\nat 70.499999\nat 70.5",
         "69.5: mark a\nnext 70\n70:\nnext 70.5\n70.499999:\n70.5: delete a 30\n"},
        {"nobody is deleted who was not asked to leave",
         "rules t=100\nsee a never\nat 68.999999\nat 69\nanswer evict a accepted\nsee a "
         "del=99/30\nat 70",
         "68.999999:\n69: evict a\n70:\n"},
        {"a first eviction that hangs is waited for one second, and so is the mark",
         "rules t=100\nsee a never\nat 69\nat 69.999999\nat 70\nat 70.999999\nat 71",
         "69: evict a\n69.999999:\n70: mark a\n70.999999:\n71: delete a 29\n"},
        {"an accepted one has a second to show itself, and has its mark from the API server",
         "rules t=100\nsee a never\nat 69\nanswer evict a accepted\nat 69.999999\nat 70",
         "69: evict a\n69.999999:\n70: delete a 30\n"},
        {"late, with no more than is left",
         "rules t=100\nsee a never grace=60\nat 90\nanswer evict a budget\nat 90\nanswer mark a "
         "accepted\nat 90",
         "90: evict a 10\n90: mark a\n90: delete a 10\n"},
        {"in whatever tier, and where others drain",
         "rules t=30 watch max=1\nsee a tier=2\nsee b\nat 0", "0: evict b, evict a\n"},
        {"a new drain asks once more",
         "rules t=30\nsee a\nat 0\nanswer evict a budget\nrestart\nat 0",
         "0: evict a\n0: evict a\n"},
        {"a mark that is refused holds nothing up",
         "rules t=100\nsee a never\ntried\nat 69\nanswer mark a refused\nat 70\nsum",
         "69: mark a\n70: delete a 30\nsum total=1 remaining=1 forcing\n"},
        {"late: both at once, with what is left, rounded up",
         "rules t=100\nsee a never grace=3600\ntried\nat 89.9\nanswer mark a accepted\nat 89.9\n",
         "89.9: mark a\n89.9: delete a 11\n"},
        {"after T its own grace: nobody knows when the machine ends",
         "rules t=100\nsee a never\nat 120\nanswer evict a budget\nat 120\nanswer mark a "
         "accepted\nat 120",
         "120: evict a\n120: mark a\n120: delete a 30\n"},
        {"T long past", "rules t=-500\nsee a never\ntried\nat 0\nanswer mark a away\nat 0",
         "0: mark a\n0: delete a 30\n"},
        {"grace 0 goes at T, with 1",
         "rules t=100\nsee a never grace=0\ntried\nat 98\nat 99\nanswer mark a accepted\nat "
         "99.9\nat 100",
         "98:\n99: mark a\n99.9:\n100: delete a 1\n"},
        {"never more than the pod's own",
         "rules t=100\nsee a never grace=5\ntried\nat 94\nanswer mark a accepted\nat 95",
         "94: mark a\n95: delete a 5\n"},
        {"whatever its tier, budget, annotation, and also where others drain",
         "rules t=30 watch\nsee a never\nsee b tier=2\nsee c keep=500 tier=3\ntried\nat 0\nanswer "
         "mark a "
         "accepted\nanswer mark b accepted\nanswer mark c accepted\nat 0",
         "0: mark a, mark b, mark c\n0: delete a 30, delete b 30, delete c 30\n"},
        {"whatever the pause after a refusal and however many are under way",
         "rules t=40 max=1\nsee a\nsee b\nat 0\nanswer evict a budgets\nat 1\nat 9\nanswer mark a "
         "accepted\nanswer mark b accepted\nat 10",
         "0: evict a\n1: evict b\n9: mark a, mark b\n10: delete a 30, delete b 30\n"},
        {"an eviction that is under way holds no deletion up",
         "rules t=40\nsee a\nat 0\nat 9\nanswer mark a accepted\nat 10\nanswer evict a "
         "accepted\nanswer delete a accepted\nat 10.1\nsum",
         "0: evict a\n9: mark a\n10: delete a 30\n10.1:\nsum total=1 remaining=1 leaving=1 "
         "progress=10\n"},
        {"a grace beyond all time is over at once",
         "rules t=100\nsee a grace=18446744073709551615\ntried\nat 0\nlines",
         "0: mark a\na last=-999999.999999\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P8: T appears, moves and vanishes. */
static void test_moving_deadline(void **state) {
    static const struct script_row rows[] = {
        {"appears", "see a never\ntried\nat 0\nnext\nrules t=100\nnext\nat 69",
         "0:\nnext never\nnext 69\n69: mark a\n"},
        {"moves ahead: at once, with what is left",
         "rules t=100\nsee a never\ntried\nat 0\nrules t=20\nat 1\nanswer mark a accepted\nat 1",
         "0:\n1: mark a\n1: delete a 19\n"},
        {"moves away after the mark: marked again later, evicted meanwhile",
         "rules t=100\nsee a\nrules t=100 watch\ntried\nat 69\nanswer mark a accepted\nrules "
         "t=200\nat 69.5\nanswer evict a budget\nat 169\nanswer mark a accepted\nat 170",
         "69: mark a\n69.5: evict a#2\n169: mark a#2, evict a#3\n170: delete a 30\n"},
        {"moves a little ahead after the mark: no second one",
         "rules t=100\nsee a never\ntried\nat 69\nanswer mark a accepted\nrules t=99\nat 69.1",
         "69: mark a\n69.1: delete a 30\n"},
        {"moves away after the deletion was accepted: no second mark, and what is asked again "
         "changes nothing",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "accepted\nrules t=100\nat 69.5\nat 70",
         "0: mark a\n0: delete a 30\n69.5:\n70: delete a#2 30\n"},
        {"vanishes after the mark",
         "rules t=100\nsee a never\ntried\nat 69\nanswer mark a accepted\nrules\nat "
         "70\nnext",
         "69: mark a\n70:\nnext never\n"},
        {"vanishes while a deletion is under way: no eviction beside it, one after it failed",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nrules\nat 1\nanswer "
         "delete a away\nat 2",
         "0: mark a\n0: delete a 30\n1:\n2: evict a#2\n"},
        {"vanishes after the deletion was accepted: nothing more",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "accepted\nrules\nat 1\nnext\nsum",
         "0: mark a\n0: delete a 30\n1:\nnext 2\nsum total=1 remaining=1 leaving=1 deleted=1 "
         "progress=0\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P9: a pod that terminates already and would end after T. */
static void test_shortening(void **state) {
    static const struct script_row rows[] = {
        {"by the server's arithmetic: what has run since the request, and what is left",
         "rules t=100\nsee a grace=3600 del=3610/3600\nat 20\nanswer delete a accepted\nsee a "
         "del=100/90\nat 21\nsum",
         "20: delete a 90\n21:\nsum total=1 remaining=1 leaving=1 progress=0\n"},
        {"by less than a second is in time", "rules t=100\nsee a del=101/30\nat 90", "90:\n"},
        {"by more is not", "rules t=100\nsee a del=101.000001/30\nat 90", "90: delete a 29\n"},
        {"a fraction counts as a second", "rules t=100.5\nsee a del=110/100\nat 90",
         "90: delete a 91\n"},
        {"where T moves ahead", "rules t=100\nsee a del=60/30\nat 31\nrules t=50\nat 32",
         "31:\n32: delete a 20\n"},
        {"without T never", "see a del=3600/3600\nat 0\nnext", "0:\nnext 3602\n"},
        {"up to T, not after it",
         "rules t=100\nsee a del=130/60\nat 99.9\nsee b del=130/60\nat 100",
         "99.9: delete a 30\n100:\n"},
        {"not more often than the pauses allow, until it is seen",
         "rules t=100\nsee a del=3600/3600\nat 10\nanswer delete a accepted\nat 10.199\nat "
         "10.2\nanswer delete a away\nat 10.599\nat 10.6\nnext",
         "10: delete a 100\n10.199:\n10.2: delete a#2 100\n10.599:\n10.6: delete a#3 100\nnext "
         "3602\n"},
        {"a request that lies ahead gives one second", "rules t=100\nsee a del=500/0\nat 10",
         "10: delete a 1\n"},
        {"of another's request, where others drain",
         "rules t=100 watch\nsee a del=3600/3600\nat 10", "10: delete a 100\n"},
        {"an accepted eviction counts as the request before the watch shows it",
         "rules t=100\nsee a grace=80\nat 10\nanswer evict a accepted\nrules t=50\nat "
         "20",
         "10: evict a\n20: delete a 40\n"},
        {"and so does an accepted deletion: what is asked again changes nothing",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "accepted\nat "
         "0.2\nanswer delete a accepted\nat 1.5\nanswer delete a accepted\nat 3\nanswer delete a "
         "accepted\nsee a del=30/30\nat 9",
         "0: mark a\n0: delete a 30\n0.2: delete a#2 30\n1.5: delete a#3 30\n3: delete a#4 "
         "30\n9:\n"},
        {"from when it was asked, however late the answer comes",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nat 5\nanswer delete a "
         "accepted\nat 5.2",
         "0: mark a\n0: delete a 30\n5:\n5.2: delete a#2 30\n"},
        {"an eviction likewise",
         "rules t=100\nsee a grace=80\nat 10\nat 14\nanswer evict a accepted\nrules t=50\nat "
         "20",
         "10: evict a\n14:\n20: delete a 40\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P11: DELETE again after 0.2 s doubling to 1 s, whatever the answer. */
static void test_deletion_again(void **state) {
    static const struct script_row rows[] = {
        {"the pauses",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "refused\nnext\nat "
         "0.2\nanswer delete a away\nnext\nat 0.6\nanswer delete a busy\nnext\nat 1.4\nanswer "
         "delete a refused\nnext\nat 2.4\nanswer delete a namespace\nnext\nlines",
         "0: mark a\n0: delete a 30\nnext 0.2\n0.2: delete a#2 30\nnext 0.6\n0.6: delete a#3 "
         "30\nnext 1.4\n1.4: delete a#4 29\nnext 2.4\n2.4: delete a#5 28\nnext 3.4\na last=0 "
         "blocked [] 'namespace'\n"},
        {"no second one beside the first",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nat 5\nnext",
         "0: mark a\n0: delete a 30\n5:\nnext never\n"},
        {"one that a finalizer holds is left alone once it is stuck",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "accepted\nsee a "
         "del=30/30\nat 1\nnext\nat 90.000001\nsum",
         "0: mark a\n0: delete a 30\n1:\nnext 32\n90.000001:\nsum total=1 deleted=1 stuck=1 "
         "progress=0\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P12: GONE is trusted until the pod is seen again; then it is new, after a second. */
static void test_gone(void **state) {
    static const struct script_row rows[] = {
        {"believed", "see a\nsee b tier=2\nat 0\nanswer evict a gone\nlines\nsum\nat 0.1\nat 500",
         "0: evict a\nb\nsum total=2 remaining=1 progress=0\n0.1: evict b\n500:\n"},
        {"seen again",
         "see a\nat 0\nanswer evict a gone\nat 1\nsee a\nnext\nsum\nat 1.999999\nat 2",
         "0: evict a\n1:\nnext 2\nsum total=1 remaining=1 progress=0\n1.999999:\n2: evict a#2\n"},
        {"seen again, its refusals are forgotten",
         "rules t=40\nsee a\nat 0\nanswer evict a budget budget=x\nat 9\nanswer mark a "
         "accepted\nanswer evict a gone\nsee a\nlines\nat 9.5\nat 10",
         "0: evict a\n9: mark a, evict a#2\na last=10\n9.5:\n10: mark a#2\n"},
        {"the same for a deletion",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a gone\nat "
         "2\nsee "
         "a\nat 2.5\nat 3",
         "0: mark a\n0: delete a 30\n2:\n2.5:\n3: mark a#2\n"},
        {"of a mark it is not believed: the deletion says it",
         "rules t=30\nsee a\ntried\nat 0\nanswer mark a gone\nlines\nat 0\nanswer delete a "
         "gone\nlines\nsum",
         "0: mark a\na last=0\n0: delete a 30\n\nsum total=1 progress=0\n"},
        {"a pod that left before its answer came counts as evicted",
         "see a\nat 0\ngone a\nlines\nanswer evict a accepted\nsum",
         "0: evict a\n\nsum total=1 evicted=1 progress=0\n"},
        {"and where it shows up before the answer, it is remembered that it was asked",
         "see a\nat 0\ngone a\nsee a\nat 5\nanswer evict a accepted\nat 9\nsum\ngone a\nsum",
         "0: evict a\n5:\n9:\nsum total=1 remaining=1 leaving=1 progress=5\nsum total=1 evicted=1 "
         "progress=9\n"},
        {"answers for pods that nobody knows are dropped",
         "rules max=1\nanswer evict x accepted\nsee a\nsee b\nat 0\nanswer evict y accepted\nat 1",
         "0: evict a\n1: evict b\n"},
        {"seen again as a pod that has ended, it is still one of this drain",
         "see a\nat 0\nanswer evict a gone\nsee a ended\nsum",
         "0: evict a\nsum total=1 terminal=1 progress=0\n"},
        {"gone twice, and one that was never there",
         "see a\nat 0\nanswer evict a gone\ngone a\ngone a\ngone "
         "x\nsum",
         "0: evict a\nsum total=1 progress=0\n"},
        {"a mark under way is waited for by the pod that came back, not beyond a second",
         "rules t=30\nsee a\ntried\nat 0\ngone a\nsee a\nat 0.5\nat 1",
         "0: mark a\n0.5:\n1: delete a 29\n"},
    };

    (void)state;
    CHECK(rows);
}

static void test_counts(void **state) {
    static const struct script_row rows[] = {
        {"a drain from its beginning to its end",
         "rules t=100\nsee a\nsee b\nsee c never\nsee d mirror\nsum\nat 0\nanswer evict a "
         "accepted\nanswer evict b budget budget=web\nsum\nlines\nat 5\nsee a del=30/30\nat "
         "30\ngone "
         "a\nsum\nat 69\nanswer evict c budget\nat 69\nanswer mark b accepted\nanswer mark c "
         "accepted\nat 70\nanswer delete b "
         "accepted\nanswer delete c accepted\nsum\ngone b\ngone c\nsum\nrestart\nsum",
         "sum total=3 remaining=3 kept=1 mirror=1\n0: evict a, evict b\nsum total=3 remaining=3 "
         "leaving=1 kept=1 blocked=1 mirror=1 progress=0\na last=70 leaving, b last=70 blocked "
         "[web] 'budget', c last=70 kept, d mirror\n5: evict b#2\n30:\nsum total=3 remaining=2 "
         "kept=1 blocked=1 evicted=1 mirror=1 progress=30\n69: mark b, evict c\n69: mark c\n70: "
         "delete b 30, "
         "delete c 30\nsum total=3 remaining=2 leaving=2 evicted=1 deleted=2 mirror=1 "
         "progress=70\nsum total=3 evicted=1 deleted=2 mirror=1 progress=70\nsum mirror=1\n"},
        {"a pod that was terminating when it was seen first began to leave when it was asked to",
         "at 20\nsee a del=40/30\nsum\nsee b del=10/0\nsum",
         "20:\nsum total=1 remaining=1 leaving=1 progress=10\nsum total=2 remaining=2 leaving=1 "
         "blocked=1 "
         "progress=10\n"},
        {"pods that are no concern do not count as progress",
         "rules karpenter\nsee a daemon\nsee b tolerates\nat 0\nsee a daemon del=30/30\ngone "
         "a\ngone b\nsum",
         "0:\nsum\n"},
        {"a busy or absent server blocks no pod; what blocked it stays known",
         "see a\nsee b\nat 0\nanswer evict a busy\nanswer evict b budget budget=x\nlines\nat "
         "1\nanswer evict b away\nlines",
         "0: evict a, evict b\na, b blocked [x] 'budget'\n1: evict b#2, evict a#2\na, b blocked "
         "[x] "
         "'budget'\n"},
        {"what blocked a pod that leaves is forgotten",
         "see a\nat 0\nanswer evict a budget budget=x\nat 1\nanswer evict a accepted\nlines",
         "0: evict a\n1: evict a#2\na leaving\n"},
        {"what has ended before a new drain begins is no part of it",
         "see a\nat 0\nsee a ended\nrestart\nsum", "0: evict a\nsum terminal=1\n"},
        {"nor is who was evicted and is said to be gone",
         "rules t=40\nsee a\nat 0\nanswer evict a accepted\nat 9\nat 10\n"
         "answer delete a gone\nsum\nrestart\nsum",
         "0: evict a\n9:\n10: delete a 30\nsum total=1 evicted=1 progress=10\nsum\n"},
        {"a new drain forgets refusals and pauses, but not what is under way",
         "rules max=1\nsee a\nsee b\nat 0\nanswer evict a budgets\nat 1\nrestart\nlines\nat "
         "1.5\nanswer evict b accepted\nat 2",
         "0: evict a\n1: evict b\na, b\n1.5:\n2: evict a\n"},
        {"who is gone before a new drain begins is no part of it",
         "see a\nat 0\nanswer evict a accepted\nsee b\nat 1\nanswer evict b "
         "gone\nrestart\nsum\ngone "
         "a\ngone b\nsum",
         "0: evict a\n1: evict b\nsum total=1 remaining=1 leaving=1\nsum total=1 evicted=1 "
         "progress=1\n"},
    };

    (void)state;
    CHECK(rows);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excluded),
        cmocka_unit_test(test_put_back),
        cmocka_unit_test(test_replacement_first),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_graceful),
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_deletions_are_counted),
        cmocka_unit_test(test_force_delete_time),
        cmocka_unit_test(test_moving_deadline),
        cmocka_unit_test(test_shortening),
        cmocka_unit_test(test_deletion_again),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_counts),
    };

    return run_group(tests, NULL, NULL);
}
