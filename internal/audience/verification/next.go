package verification

import (
	"context"
	"errors"
	"slices"

	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/setting"
)

// reroute sends a resend another way, according to the setting verification.resend_by, unless the last of the tasks was delivered. If there is no other way, the
// resend goes the same way again.
func (s *Service) reroute(ctx context.Context, m *message, by string, tasks []string) error {
	if by == setting.ResendSame {
		return nil
	}
	viewer := task.Viewer{CompanyID: &m.origin.CompanyID}
	last, err := s.Tasks.Get(ctx, viewer, tasks[len(tasks)-1])
	switch {
	case fault.Is(err, fault.TaskNotFound): // its partition was dropped
		return nil
	case err != nil:
		return err
	case last.Delivery != nil && *last.Delivery == callback.Delivered:
		return nil
	case by == setting.ResendEmail:
		return s.rerouteToEmail(ctx, m)
	default:
		events, err := s.Tasks.Timeline(ctx, viewer, last.TaskID)
		if err != nil {
			return err
		}
		return s.rerouteFrom(ctx, m, last, events)
	}
}

// rerouteToEmail sends a message to the e-mail address of the contact who was named at the start, if this is possible now. The language remains.
func (s *Service) rerouteToEmail(ctx context.Context, m *message) error {
	if m.Contact == "" {
		return nil
	}
	all, err := s.Contacts.Addresses(ctx, m.origin.CompanyID, directory.Email, []string{m.Contact})
	if err != nil || all[0] == "" {
		return err
	}
	other := *m
	if other.TemplateNo == "" {
		other.Language = languageOf(m.Language, m.to)
	}
	other.to = recipient{directory.Email, all[0]}
	var refused *fault.Error
	switch preview, err := s.preview(ctx, &other); {
	case errors.As(err, &refused): // for example, no sender serves the channel, or the address is blocked
		return nil
	case err != nil:
		return err
	case preview.Verdict == submit.WouldSend || preview.Verdict == submit.WouldBeSimulated:
		*m = other
	}
	return nil
}

// preview returns how a message would be sent now.
func (s *Service) preview(ctx context.Context, m *message) (submit.Preview, error) {
	sub, err := s.submission(ctx, m)
	if err != nil {
		return submit.Preview{}, err
	}
	return s.Submissions.Preview(ctx, *sub, m.origin) //nolint:wrapcheck // a fault, or already wrapped
}

// rerouteFrom lets only one sender send a message: the best one of those that are ready and had nothing to do with the message before. It gets the task of this
// message and its events. The only sender of that task had to do with it, even if it did nothing.
func (s *Service) rerouteFrom(ctx context.Context, m *message, last task.Row, events []task.TimelineRow) error {
	preview, err := s.preview(ctx, m)
	if err != nil || preview.Verdict != submit.WouldSend {
		return err
	}
	for _, sender := range preview.Senders {
		hadIt := sender.SenderNo == optional.Value(last.SenderNo) || slices.ContainsFunc(events, func(e task.TimelineRow) bool { return optional.Value(e.AppID) == sender.SenderNo })
		if !sender.CanSend() || hadIt {
			continue
		}
		other, written := *m, *m.written
		written.SenderNo = sender.SenderNo
		other.written = &written
		var refused *fault.Error
		switch preview, err := s.preview(ctx, &other); {
		case errors.As(err, &refused): // for example, a shared sender with routes of other companies: nobody else can name it
		case err != nil:
			return err
		case preview.Verdict == submit.WouldSend:
			*m = other
			return nil
		}
	}
	return nil
}
