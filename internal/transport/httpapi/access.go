package httpapi

import (
	"context"

	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
)

// viewer is what the caller may see of tasks and notifications: those of its company unless it sees every one, and with the role
// submit only its own of them.
func viewer(ctx context.Context) queue.Viewer {
	seen := queue.Viewer{CompanyID: ownCompany(ctx)}
	if who := gate.Of(ctx).Caller.User; who.Role == access.RoleSubmit {
		seen.Owner = &who.Username
	}
	return seen
}

// ownCompany is the only company of which the caller may see anything; nil if it sees every one.
func ownCompany(ctx context.Context) *int64 {
	if who := gate.Of(ctx).Caller.User; !who.SeesAll {
		return &who.CompanyID
	}
	return nil
}

// ownCompanyNo is the number of ownCompany.
func (s *Server) ownCompanyNo(ctx context.Context) (*string, error) {
	own := ownCompany(ctx)
	if own == nil {
		return nil, nil
	}
	no, err := s.directory.CompanyNo(ctx, *own)
	return &no, err
}

// companyID is the company that is named, or the caller's. Fault: auth.other_company.
func (s *Server) companyID(ctx context.Context, no *string) (int64, error) {
	who := gate.Of(ctx).Caller.User
	if no == nil {
		return who.CompanyID, nil
	}
	if own := ownCompany(ctx); own != nil {
		return *own, s.requireCompany(ctx, no)
	}
	row, err := s.directory.GetCompany(ctx, *no)
	return row.ID, err
}

// requireCompany refuses a company, if one is named, that is not the caller's, whether it is there or not.
func (s *Server) requireCompany(ctx context.Context, no *string) error {
	if no == nil {
		return nil
	}
	own, err := s.ownCompanyNo(ctx)
	if err == nil && own != nil && *own != *no {
		err = fault.New(fault.Forbidden, fault.AuthOtherCompany)
	}
	return err
}

// requireSender refuses a sender, if one is named, that the caller's company cannot reach. Fault: sender.not_found.
func (s *Server) requireSender(ctx context.Context, no *string) error {
	own := ownCompany(ctx)
	if no == nil || own == nil {
		return nil
	}
	_, err := s.senders.Get(ctx, own, *no)
	return err
}

// requireApp refuses an app that the caller is not bound to, and the number of a sender that the server drives.
func (s *Server) requireApp(ctx context.Context, appID string) error {
	if err := requireBinding(ctx, appID); err != nil {
		return err
	}
	return s.senders.CheckApp(ctx, appID)
}

// requireBinding refuses an app that the caller is not bound to.
func requireBinding(ctx context.Context, appID string) error {
	if who := gate.Of(ctx).Caller.User; who.AppID != "" && who.AppID != appID {
		return fault.New(fault.Forbidden, fault.AuthOtherApp)
	}
	return nil
}
