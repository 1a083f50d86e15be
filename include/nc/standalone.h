/*
 * A NodeClaim's complete life where no Karpenter runs: registration, initialization, voluntary
 * disruption under budgets, drain, end. Part of the step of nc/control.h, and level-triggered as
 * all of it: for each object the one next write follows from what is seen now, so that a leader
 * that was killed between two writes is followed by one that goes on where it ended. The rules, in
 * the words that the tests use:
 *
 *  - Whose. A claim with the finalizer karpenter.sh/termination is never touched, nor is its Node.
 *    What stands on a Node says nothing about that (whoever has the node's credential may have
 * put it there): one of our claim is ours, and goes with that finalizer, too. A claim of another
 * API group than karpenter.sh, of a NodeClass of eks.amazonaws.com (EKS Auto Mode), or with another
 * label app.kubernetes.io/managed-by than nodeclaimd is of another controller: it is not touched,
 * and so is its Node. The relay (nc/control.h) is for all of them.
 *  - Finalizer. NC_FINALIZER on every claim that is not being deleted, before anything else is
 *    written about it.
 *  - Its Node. Once status.nodeName is set, the Node of that name, where its providerID is the
 *    claim's (an address, and so a name, may come again with another machine); until then the one
 *    that nc/control.h says. No such Node: Registered Unknown, NodeNotFound; by identity ADMISSION
 *    two: False, MultipleNodesFound, and neither is touched.
 *  - Registration. One patch of the Node, with its resourceVersion: our finalizer, an
 * ownerReference to the claim (blockOwnerDeletion), the claim's labels and annotations, its taints
 * and startupTaints (where the Node does not have the label karpenter.sh/do-not-sync-taints=true,
 * and never a second time), karpenter.sh/unregistered gone, karpenter.sh/registered=true. Once that
 *    is seen the claim's status: nodeName, Registered True. Registered and Initialized are never
 *    taken back.
 *  - Initialization, in this order: Ready (NodeNotReady), no startup taint left
 *    (StartupTaintsExist), no ephemeral taint left (KnownEphemeralTaintsExist), every resource that
 *    is requested is there (ResourceNotRegistered). Then the Node's label
 *    karpenter.sh/initialized=true; once that is seen, Initialized True.
 *  - Ready is True where Launched (absent: whoever wrote the providerID has launched it),
 * Registered and Initialized are. lastTransitionTime moves with the status of a condition, and only
 * then. A condition that we do not know stays as it is.
 *  - The taint karpenter.sh/disrupted:NoSchedule stands on a Node whose drain status has a drain in
 * progress (phase Evicting or further, or an earlier one with a deadline: one that only reports has
 * none), or whose claim is being deleted. It is taken off again where neither is so and the
 * annotation NC_ANNOTATION_OUR_TAINT states that it is ours. All other taints are left as they are.
 *  - Voluntary disruption: the claim is expired (created + expireAfter has passed; registered),
 *    drifted (its hash and the NodePool's or NodeClass's differ, of one version; initialized), or
 * its Node's drain status is a rebalance recommendation (rules.rebalances; initialized). The commit
 * point is the DELETE of the claim with its uid. It is sent where fewer of the pool's claims than
 * its budgets allow for that reason are on their way out: being deleted, a DELETE of it in flight,
 * or registered with a Node that is not Ready (the candidate itself counts once). The budgets'
 * number of nodes is the pool's claims with an initialized Node, those on their way out, and the
 * candidate: one that does not work yet makes no room for others to go, and none takes a place that
 * it does not count for. Both count until the claim is gone.
 *    Expired goes first, then Drifted, then Rebalance, among equals the eldest.
 *    karpenter.sh/do-not-disrupt=true on the Node or the claim keeps all of this away. No NodePool,
 * or budgets that cannot be read: nothing voluntary. A drifted claim that is initialized has the
 *    condition Drifted; one that is not drifted any more has none.
 *  - Zones take turns where rules.zone_turn_usec is set. The zone of a claim is its label
 *    topology.kubernetes.io/zone (a node can change its own Node's, and not the claim's); without
 *    the label a zone of its own. A voluntary DELETE is sent only in the zone whose turn it is, and
 *    while no claim of another zone is being disrupted. Being disrupted is a claim that is on its
 *    way out because of such a DELETE (the condition DisruptionReason, as Karpenter has it, says so
 *    to the next leader), or that was expired or drifted when it was deleted; what is being relayed
 *    is not. One that takes longer than zone_turn_usec is not waited for any more
 *    (the Event ZoneTurnExceeded). Where claims of another zone wait for nothing but their turn,
 *    it passes on once nothing of the current zone is in progress, or has lasted zone_turn_usec: to
 *    the next of these zones in alphabetical order, after the last one to the first. A new leader
 *    resumes the turn of what began last. Nothing else is held back, and budgets hold as ever.
 *  - A Node that is being deleted, or is gone, while its registered claim is not being deleted: the
 *    claim is deleted. Gone is a Node that was not seen for NC_STANDALONE_LOST_USEC: Nodes and
 * claims come by different watches, and one that hangs is noticed later than a claim states who its
 * Node is. So long the Node of a registered claim that is being deleted is waited for, too.
 *  - A claim that is being deleted, by whomever. First its force-delete time: where spec has
 *    terminationGracePeriod and the annotation karpenter.sh/nodeclaim-termination-timestamp is
 *    missing, that is set to deletionTimestamp + terminationGracePeriod. Then its Node gets, with
 * the taint, the drain-request {id: claim-UID, reason, mode: deadline | graceful, deadline: the
 * force-delete time + margin}; the same claim has the same request, whoever writes it. A request
 * with another id is not overwritten: the state WaitingForAnotherRequest.
 *  - Drained: Unknown, Draining; True once the Node's drain status is Drained and is about our
 * request, or from a source that is stronger than a request (operator, deletion, spot, shutdown),
 * or the request's deadline has passed. Where no agent has said such a drain status for
 * NC_STANDALONE_RESPONSE_USEC and there is no deadline: Unknown, WaitingForAgent. VolumesDetached
 * is True with the drain status Drained; False, TerminationGracePeriodElapsed, where it was the
 * deadline that ended the wait. A Node that was deleted (the cloud's controller does so where a
 * machine is gone) and is not Ready for NC_STANDALONE_ENDING_USEC has nobody who could say the
 * drain status: the wait ends as by a deadline. So it does where no agent says such a drain status,
 * and there is no force-delete time, for rules.ceiling_usec since the deletion. An agent that
 * speaks is waited for: budgets are there to be kept, and who wants an end in any case sets
 * terminationGracePeriod.
 *  - End, after Drained: where rules.terminates, END_INSTANCE, InstanceTerminating True once it was
 *    accepted, and again every NC_STANDALONE_AGAIN_USEC until the Node is not Ready, is being
 * deleted by somebody, is gone, EC2 knows no such instance, or NC_STANDALONE_ENDING_USEC have
 * passed: nothing is forgotten of a machine that may still write. Then DELETE of the Node, our
 * finalizer off the Node, and once the Node is gone, off the claim. A claim without a Node: where
 * there is a providerID and rules.terminates, Drained True, and then END_INSTANCE, so that a Node
 * which comes with that moment is not waited for, whoever leads; then the finalizer off. That EC2
 *    knows no such instance is not trusted of one without a Node whose claim is younger than
 *    NC_STANDALONE_LAUNCHED_USEC: it may report it for minutes after a launch, and would forget it.
 *    By identity EC2 a Node that says to be its machine is asked about before that, for at most
 *    NC_STANDALONE_ENDING_USEC.
 *  - A Node with our finalizer that is being deleted and whose claim does not exist: the finalizer
 *    is taken off. Where there are claims and it cannot be told which is its own (another Node says
 *    that it is the same machine): once its drain status is Drained or Failed, or it has not been
 * Ready for NC_STANDALONE_ENDING_USEC.
 */
#ifndef NC_STANDALONE_H
#define NC_STANDALONE_H

#include "nc/control.h"
#include "nc/names.h"

#define NC_STANDALONE_RESPONSE_USEC (60ull * 1000000)
#define NC_STANDALONE_AGAIN_USEC (30ull * 1000000)
/* Longer than a watch may be silent (kube/watch.c). */
#define NC_STANDALONE_LOST_USEC (180ull * 1000000)
#define NC_STANDALONE_ENDING_USEC (300ull * 1000000)
#define NC_STANDALONE_LAUNCHED_USEC (300ull * 1000000)
/* For nc_control_new(). */
extern const struct nc_standalone nc_standalone;

#endif
