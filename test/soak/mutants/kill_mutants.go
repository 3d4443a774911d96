package mutants

// killMutants are bugs that have no effect unless a process is killed at the wrong moment.
var killMutants = []Mutant{
	{"hasty", "a submission is answered before its COMMIT", []change{
		{"internal/dispatch/queue/submit/store.go", "		refused, err = s.submits.Do(ctx, row)\n", `		if row.DedupKey == nil {
			stored := make(chan bool, 1)
			go func() {
				refused, err = s.submits.Do(context.WithoutCancel(ctx), row)
				stored <- true
			}()
			select {
			case <-stored:
			case <-time.After(2 * time.Millisecond):
				return row.submitted(), nil
			}
		} else {
			refused, err = s.submits.Do(ctx, row)
		}
`},
	}},
	{"detached", "a verification is committed before its message", []change{
		{codes, "m.service.q.VerificationsStart(ctx, p)", "m.service.q.VerificationsStart(context.Background(), p)"},
	}},
	{"unheld", "a claim answers the leases that it took, though its COMMIT failed", []change{
		{claiming, "	if err != nil {\n		return nil, fmt.Errorf(\"claim tasks: %w\", err)", "	if err != nil && len(leases) == 0 {\n		return nil, fmt.Errorf(\"claim tasks: %w\", err)"},
	}},
}
