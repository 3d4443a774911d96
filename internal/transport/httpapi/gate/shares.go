package gate

import (
	"context"
	"net/http"
	"slices"

	"lksms/internal/platform/outbound"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/gate/contract"
)

// slot waits for a slot if the request needs a slot. Requests without a company (of admins and senders) need no slot. leave frees the slot.
func (g *Gate) slot(ctx context.Context, x *Exchange) (leave func(), err error) {
	company, is := x.company()
	if !is {
		return func() {}, nil
	}
	g.slots.See(company)
	if asked, _ := g.contract.Operation(x.Operation); !asked.IsCostly && !x.isCostly && !x.DryRun && len(x.Body.Raw) <= capacity.SmallBody {
		return func() {}, nil
	}
	return g.slots.Take(ctx, company)
}

// paced delays the response to a request until the response is due or the client disconnects.
func (g *Gate) paced(ctx context.Context, x *Exchange, status int) {
	company, is := x.company()
	switch {
	case isBusy(ctx) || x.Caller.Provider != "": // a connection beyond the limit must be free soon; a provider is allowed to call often
	case x.Caller.User.Username == "":
		who := outbound.NetworkOf(x.Origin.SourceIP)
		if x.isFile { // a page consists of many files, which must not delay other requests
			who = "files " + who
		}
		if slices.Contains(contract.AlwaysServed, x.Operation) {
			g.pace.Delay(ctx, "probe "+who, capacity.ProbeWait)
			return
		}
		g.pace.Delay(ctx, who, capacity.PaceWait)
	case is && status < http.StatusBadRequest:
		g.pace.Uncount(capacity.OfCompany(company))
	case is && !isFailure(status):
		g.pace.Delay(ctx, capacity.OfCompany(company), capacity.PaceWait)
	}
}
