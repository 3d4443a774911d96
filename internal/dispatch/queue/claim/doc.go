// Package claim decides how many tasks a sender can claim now, from which pools and in which order, and leases these tasks. docs/dispatch.md describes the
// rules. A claim is one transaction of these statements of dispatch/claim.sql:
//
//   - SenderAdmit reads the sender: its lease time, its shared pool, whether it has limits and routes. SenderAdmit locks no row. Every claim runs it.
//   - SenderBudget locks the sender's counters and returns how many tasks and segments the sender can claim. It runs if the sender has an interval, limits,
//     a balance or SIMs.
//   - RouteAdmit locks the sender's routes to pools with waiting tasks, and returns how many tasks the other senders of these pools were given.
//   - PoolRooms returns how many segments a task can have if another shared sender must send it. It runs for shared senders that are in trouble or have a
//     smaller sort than another shared sender.
//   - TaskOffer locks the tasks that the sender can claim, in the order of each pool.
//   - SimStandings, SimTasks and SimCharge of dispatch/sims.sql read the SIMs of the sender and of the conversations, and count the leases of each SIM. They run if
//     the sender has SIMs.
//   - TaskFlows locks the first tasks of each company whose users or batches compete, in the order within the company.
//   - TaskExchange exchanges ranks within a company. It runs if the claim takes a task at the rank of another task.
//   - TaskLease leases the chosen tasks.
//   - PoolsPassed finds pools in which all waiting tasks are forbidden for the sender. It runs if the sender was behind in a pool and claimed fewer tasks
//     than it could.
//   - SenderCharge adds the cost of the claim to the counters of the sender and its routes. It runs if the sender has counters.
//
// Between TaskOffer and TaskLease, the server merges the pools into one order (order.go). The tasks are locked, so no other claim can take them meanwhile.
// If the sender has few segments left, both statements can run again, because a smaller task can follow a task that was too large. A sender without
// interval, limits, balance, SIMs and routes locks only tasks.
//
// Ranks follow start-time fair queueing. A task gets the next rank of its company when it is queued, but no rank before the front of the queue. Each task
// moves the next rank of its company by 1/weight. Each pool has separate ranks, so a claim compares distances from the first task of each pool, counted from
// routes.next_turn.
//
// Flow ranks work in the same way among the flows of one company. If several flows wait, a claim takes the task with the smallest flow rank at each rank of
// the company, and exchanges the ranks of the two tasks. Without the exchange, the waiting tasks of the first flow would keep their ranks, and the tasks of
// a later flow would use additional ranks. Ten users who queue one campaign after another would then get almost three shares for their company.
//
// If tasks leave the queue unsent, their company gets their ranks again (RankGaps, RankGapClose). Otherwise the company would wait while the other
// companies send as many tasks.
package claim
