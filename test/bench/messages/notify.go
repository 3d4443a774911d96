package messages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lksms/test/bench/measure"
)

// peopleEach is the number of people in a notification, and the number of tasks per claim of the app that is compared.
const peopleEach = 1000

// NotifyPeople compares two ways to deliver the same number of messages. In the first way, a driver writes the messages of notifications to the log. In the
// second way, an app claims submitted messages in requests of the same size.
func NotifyPeople(ctx context.Context, b *measure.Bench) error {
	c := b.Client(measure.LifeCallers)
	people := make([]string, peopleEach)
	for i := range people {
		people[i] = fmt.Sprintf("%q", fmt.Sprint("user-", i))
	}
	if err := c.Call("POST", "/api/v1/admin/senders", `{"sender_no":"logs","name":"logs","channel":"oa","kind":"log","status":"on","is_shared":true}`, nil); err != nil {
		return err
	}
	defer func() { _ = c.Call("PATCH", "/api/v1/admin/senders/logs", `{"status":"off"}`, nil) }() // no other figure needs this sender
	event := 0
	notifyPeople := func(people []string) error {
		event++
		return c.Call("POST", "/api/v1/notifications", fmt.Sprintf(
			`{"biz_type":3,"biz_id":%d,"channels":["oa"],"payload":{"taskName":"应急成像"},"user_ids":[%s]}`, event, strings.Join(people, ","),
		), nil)
	}
	sent := func(n int) error { // outcome 2: SUCCESS
		for reached := 0; reached < n; time.Sleep(5 * time.Millisecond) {
			if err := b.DB.QueryRow(ctx, "SELECT count(*) FROM report_logs WHERE outcome = 2").Scan(&reached); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(notifyPeople(people[:1]), sent(1)); err != nil { // not measured: starts the worker of the sender
		return err
	}
	var pushed, pulled []float64
	n := max(2, int(b.Time/time.Second))
	for range b.Rounds {
		if err := b.Empty(ctx); err != nil {
			return err
		}
		began := time.Now()
		for range n {
			if err := notifyPeople(people); err != nil {
				return err
			}
		}
		if err := sent(n * peopleEach); err != nil {
			return err
		}
		pushed = append(pushed, float64(n*peopleEach)/time.Since(began).Seconds())

		if err := b.Empty(ctx); err != nil {
			return err
		}
		began = time.Now()
		submitted := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < n && err == nil; i++ {
				err = c.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(peopleEach), nil)
			}
			submitted <- err
		}()
		for taken, done := 0, false; !done || taken < n*peopleEach; {
			got, err := measure.Pull(c, "app", peopleEach)
			if err != nil {
				return err
			}
			taken += got
			select {
			case err := <-submitted:
				if done = true; err != nil {
					return err
				}
			default:
			}
		}
		pulled = append(pulled, float64(n*peopleEach)/time.Since(began).Seconds())
	}
	b.AtLeast(0.8, fmt.Sprintf("notifications to %d people, through a driver", peopleEach), measure.Median(pushed), measure.Median(pulled), "tasks/s", "one app that claims as many per request")
	return b.Empty(ctx)
}
