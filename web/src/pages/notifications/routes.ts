import { ChatDotRound, Message, Tickets } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'notifications',
    path: 'notifications',
    component: () => import('./NotificationsPage.vue'),
    title: 'notifications.title',
    operations: ['listNotifications'],
    nav: { section: 'messages', order: 30, icon: Message },
  },
  {
    name: 'notification',
    path: 'notifications/:id(\\d+)',
    component: () => import('./NotificationPage.vue'),
    title: 'notifications.one',
    operations: ['getNotification'],
  },
  {
    name: 'subscribe-messages',
    path: 'subscribe-messages',
    component: () => import('./OncePage.vue'),
    title: 'once.title',
    operations: ['listOnce'],
    nav: { section: 'messages', order: 35, icon: ChatDotRound },
  },
  {
    name: 'notification-templates',
    path: 'notification-templates',
    component: () => import('./NotificationTemplatesPage.vue'),
    title: 'notificationTemplates.title',
    operations: ['listNotificationTemplates'],
    nav: { section: 'messages', order: 55, icon: Tickets },
  },
]
