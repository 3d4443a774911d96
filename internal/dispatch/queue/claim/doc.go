// Package claim decides how many tasks a sender may take now, from which pools and in which order, and leases these tasks. docs/dispatch.md has the
// rules. A claim is one transaction of these statements of dispatch/claim.sql:
//
//   - SenderAdmit reads the sender: its lease time, its shared pool, whether it has limits and routes. It locks nothing. Every claim runs it.
//   - SenderBudget locks the sender's counters and returns how many tasks and segments it may take. For senders with an interval, limits or a balance.
//   - RouteAdmit locks the sender's routes in whose pools tasks wait, and returns how much the other senders of these pools were served.
//   - PoolRooms returns how much of the shared pool is left to other shared senders. For shared senders below one of a larger sort, or in trouble.
//   - TaskOffer locks the tasks that the sender could take, in the order of each pool.
//   - TaskFlows locks the first tasks of companies of which several users or batches wait, in the order within the company.
//   - TaskExchange exchanges ranks within a company. For claims that take a task at the rank of another one.
//   - TaskLease leases the chosen tasks.
//   - PoolsPassed finds pools in which only tasks wait that the sender may not take. For senders that were behind in a pool and took less than they could.
//   - SenderCharge writes the cost of the claim to the sender and its routes. For senders with something to count.
//
// Between TaskOffer and TaskLease, the server merges the pools into one order (order.go). That is arithmetic on rows that nobody else can take
// meanwhile. If a sender has few segments left, both may run again: a smaller task may follow one that was too large. A sender without interval,
// limits, balance and routes locks nothing of its own.
//
// Ranks follow start-time fair queueing. A task gets the next rank of its company when it is queued, but not before the front of the queue, and moves
// its company ahead by 1/weight. Pools have ranks of their own, so a claim compares distances from the first task of each pool, counted from
// routes.next_turn. Flow ranks do the same among the flows of one company: where several flows wait, a claim takes at each rank of the company the task
// with the smallest flow rank, and exchanges the ranks of the two tasks. Giving a second flow every second rank would need no exchange, but the first
// flow's waiting tasks would keep their ranks, and ten users who queue a campaign one after another would get their company almost three shares.
// Ranks of tasks that left the queue unsent are given again to the company (RankGaps, RankGapClose): otherwise it would wait for as many tasks of the
// others.
package claim
